"""Sends a batch to the gateway: a request, its answer, and the result for each event."""

import gzip
import http.client
import logging
import platform
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import Any, Final

from .backoff import retry_after, retry_delay
from .connection import Connection, UnsentError
from .events import UNKNOWN, Event, Verdict
from .outbox import Batch
from .target import Target
from .verdicts import Answer, Evaluation, evaluate, unsent
from .version import VERSION

_log: Final = logging.getLogger("onramp_client")
_AGENT: Final = f"onramp-client/{VERSION} python/{platform.python_version()}"
_TOO_LARGE: Final = 413


@dataclass(slots=True)
class SendResult:
    """The result of one attempt: verdicts, and batches to send again."""

    settled: list[Verdict] = field(default_factory=list)
    again: list[Batch] = field(default_factory=list)
    #: The last problem of the batches to retry.
    problem: dict[str, Any] = field(default_factory=dict)
    #: The bytes of a body that the gateway or a proxy rejected as too large.
    too_many_bytes: int = 0


class Transport:
    """Sends batches; every thread has its own connection."""

    def __init__(
        self,
        target: Target,
        key: str | None,
        *,
        timeout_seconds: float,
        backoff_seconds: float,
        gzip_over: int | None,
    ) -> None:
        self._target = target
        self._timeout_seconds = timeout_seconds
        self._backoff_seconds = backoff_seconds
        self._gzip_over = float("inf") if gzip_over is None else gzip_over
        self._headers = {"Content-Type": "application/x-ndjson", "User-Agent": _AGENT}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._lock = threading.Lock()
        #: The kinds of problems logged since the last delivery.
        self._logged: set[object] = set()

    def connect(self) -> Connection:
        """Return a connection for one thread, which connects at its first use."""
        connection = Connection(self._target, self._timeout_seconds)
        self._connections.add(connection)
        return connection

    def abort(self) -> None:
        """Abort all waiting for answers."""
        for connection in list(self._connections):
            connection.abort()

    def forget(self) -> None:
        """Drop all connections without ending them: after a fork they belong to the parent."""
        for connection in list(self._connections):
            connection.forget()
        self._connections = weakref.WeakSet()
        self._lock = threading.Lock()

    def send(self, connection: Connection, batch: Batch) -> SendResult:
        """Send a batch once, without expired events."""
        now = time.monotonic()
        late = [event for event in batch.events if batch.attempts and event.give_up_at <= now]
        result = SendResult([(event, UNKNOWN, batch.problem) for event in late])
        events = [event for event in batch.events if event not in late] if late else batch.events
        if events and batch.due > now:
            result.again.append(Batch(events, batch.attempts, batch.due, batch.problem))
            result.problem = batch.problem
        elif events:
            self._attempt(connection, events, batch.attempts + 1, result)
        return result

    def _attempt(self, connection: Connection, events: list[Event], attempt: int, result: SendResult) -> None:
        body = b"\n".join(event.body for event in events)
        evaluation, wait_seconds, status = self._request(connection, events, body)
        delay = 0.0 if evaluation.at_once else retry_delay(wait_seconds, attempt - 1, self._backoff_seconds)
        due = time.monotonic() + delay
        result.settled += evaluation.settled
        result.again = [Batch(part, attempt, due, evaluation.problem) for part in evaluation.again]
        result.problem = evaluation.problem
        if status == _TOO_LARGE and evaluation.again and not evaluation.settled:
            result.too_many_bytes = len(body)
        if not evaluation.again:
            self._logged.clear()  # The next problem is logged again.

    def _request(
        self, connection: Connection, events: list[Event], body: bytes
    ) -> tuple[Evaluation, float, int]:
        """Return the evaluation, the requested seconds of wait, and the status (0: no answer)."""
        try:
            answer = self._post(connection, body)
            evaluation = evaluate(events, answer)
        except UnsentError as error:
            return unsent(events, self._no_answer(error)), 0.0, 0
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Evaluation(again=[events], problem=self._no_answer(error)), 0.0, 0
        except Exception as error:  # noqa: BLE001 - an ended thread would lose all waiting events
            return Evaluation(again=[events], problem=self._no_answer(error)), 0.0, 0
        if evaluation.again and not evaluation.at_once:
            self._log_once(answer.status, str(evaluation.problem.get("detail")), answer)
        return evaluation, retry_after(answer.headers, time.time()), answer.status

    def _post(self, connection: Connection, body: bytes) -> Answer:
        headers = self._headers
        if len(body) > self._gzip_over:
            body = gzip.compress(body, compresslevel=6)
            headers = {**headers, "Content-Encoding": "gzip"}
        return connection.post(body, headers)

    def _no_answer(self, error: Exception) -> dict[str, Any]:
        detail = f"no answer: {type(error).__name__}: {error}"
        self._log_once(type(error), detail)
        return {"detail": detail}

    def _log_once(self, kind: object, detail: str, answer: Answer | None = None) -> None:
        """Log each kind of problem once, until events are delivered again."""
        with self._lock:
            if kind in self._logged:
                return
            self._logged.add(kind)
        moved = (
            f" (it points to {answer.headers['location']})" if answer and "location" in answer.headers else ""
        )
        status = f" {answer.status}" if answer else ""
        _log.warning(
            "%s does not accept events now:%s %s%s; they wait and are sent again (logged once)",
            self._target.address,
            status,
            detail,
            moved,
        )
