"""Carrying one batch to the gateway: a request, its answer, and what follows for each of its events."""

import gzip
import http.client
import logging
import platform
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import Any, Final

from .events import UNKNOWN, Event, Verdict
from .line import Line, UnsentError
from .outbox import Batch
from .target import Target
from .verdicts import Answer, Judgement, judge, unsent
from .version import VERSION
from .waits import pause, retry_after

_log: Final = logging.getLogger("onramp_client")
_AGENT: Final = f"onramp-client/{VERSION} python/{platform.python_version()}"
_TOO_LARGE: Final = 413


@dataclass(slots=True)
class Outcome:
    """What one attempt has come to."""

    settled: list[Verdict] = field(default_factory=list)
    again: list[Batch] = field(default_factory=list)
    said: dict[str, Any] = field(default_factory=dict)
    too_many_bytes: int = 0


class Courier:
    """Sends batches; every thread has a line of its own."""

    def __init__(
        self, target: Target, key: str | None, timeout: float, backoff: float, gzip_over: int | None
    ) -> None:
        self._target = target
        self._timeout = timeout
        self._backoff = backoff
        self._gzip_over = float("inf") if gzip_over is None else gzip_over
        self._headers = {"Content-Type": "application/x-ndjson", "User-Agent": _AGENT}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._lines: weakref.WeakSet[Line] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._aloud: set[object] = set()

    def line(self) -> Line:
        """A connection for one thread."""
        line = Line(self._target, self._timeout)
        self._lines.add(line)
        return line

    def abort(self) -> None:
        """End all waiting for answers."""
        for line in list(self._lines):
            line.abort()

    def forget(self) -> None:
        """After a fork: the lines are the parent's."""
        for line in list(self._lines):
            line.forget()
        self._lines = weakref.WeakSet()
        self._lock = threading.Lock()

    def deliver(self, line: Line, batch: Batch) -> Outcome:
        """Send a batch once, or what is left of it when some of its events are given up."""
        now = time.monotonic()
        late = [event for event in batch.events if batch.attempts and event.give_up_at <= now]
        outcome = Outcome([(event, UNKNOWN, batch.said) for event in late])
        events = [event for event in batch.events if event not in late] if late else batch.events
        if events and batch.due > now:
            outcome.again.append(Batch(events, batch.attempts, batch.due, batch.said))
            outcome.said = batch.said
        elif events:
            self._attempt(line, events, batch.attempts + 1, outcome)
        return outcome

    def _attempt(self, line: Line, events: list[Event], attempt: int, outcome: Outcome) -> None:
        body = b"\n".join(event.body for event in events)
        judgement, asked, status = self._ask(line, events, body)
        due = time.monotonic() + (0.0 if judgement.at_once else pause(asked, attempt - 1, self._backoff))
        outcome.settled += judgement.settled
        outcome.again = [Batch(part, attempt, due, judgement.said) for part in judgement.again]
        outcome.said = judgement.said
        if status == _TOO_LARGE and judgement.again and not judgement.settled:
            outcome.too_many_bytes = len(body)
        if not judgement.again:
            self._aloud.clear()  # The next trouble is news again.

    def _ask(self, line: Line, events: list[Event], body: bytes) -> tuple[Judgement, float, int]:
        try:
            answer = self._post(line, body)
            judgement = judge(events, answer)
        except UnsentError as error:
            return unsent(events, self._silence(error)), 0.0, 0
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Judgement(again=[events], said=self._silence(error)), 0.0, 0
        except Exception as error:  # noqa: BLE001 - a thread that ends loses all that waits
            return Judgement(again=[events], said=self._silence(error)), 0.0, 0
        if judgement.again and not judgement.at_once:
            self._say(answer.status, str(judgement.said.get("detail")), answer)
        return judgement, retry_after(answer.headers, time.time()), answer.status

    def _post(self, line: Line, body: bytes) -> Answer:
        headers = self._headers
        if len(body) > self._gzip_over:
            body = gzip.compress(body, compresslevel=6)
            headers = {**headers, "Content-Encoding": "gzip"}
        return line.post(body, headers)

    def _silence(self, error: Exception) -> dict[str, Any]:
        told = f"no answer: {type(error).__name__}: {error}"
        self._say(type(error), told)
        return {"detail": told}

    def _say(self, what: object, told: str, answer: Answer | None = None) -> None:
        """Each kind of trouble once, until events get through again."""
        with self._lock:
            if what in self._aloud:
                return
            self._aloud.add(what)
        moved = (
            f" (it points to {answer.headers['location']})" if answer and "location" in answer.headers else ""
        )
        status = f" {answer.status}" if answer else ""
        _log.warning(
            "%s does not take events yet:%s %s%s; they wait and are sent again (said once)",
            self._target.shown,
            status,
            told,
            moved,
        )
