# ruff: noqa: INP001 - a file to copy, no package
"""Send events to an Onramp gateway.  One file, standard library only: copy it.

    from onramp_client import Onramp

    with Onramp("http://gateway:8080", key="onramp_shop_…") as onramp:
        onramp.send("order_placed", {"amount": 12.5})
    print(onramp.tally)

Events are queued, sent in gzipped batches by one background thread, and sent again with the
same ids until the gateway says that Kafka has them, refuses them, or `give_up_seconds` have
passed.  An id that arrives twice lands once.
"""

import atexit
import contextlib
import gzip
import http.client
import json
import queue
import random
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlsplit

_RETRIED = frozenset({408, 429, 500, 502, 503, 504})
_WHOLE = frozenset({200, 202, 207, 422, 503})
_IDLE_SECONDS = 0.05
_FIRST_BACKOFF = 0.2
_MOST_BACKOFF = 20.0


class QueueFullError(Exception):
    """More events are waiting than the queue holds: the gateway is slower than the sender."""


@dataclass
class Tally:
    """What became of the events: `unknown` ones were given up without an answer that settles them."""

    sent: int = 0
    accepted: int = 0
    rejected: int = 0
    unknown: int = 0
    #: The last few problems the gateway told, for a log.
    problems: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, problem: dict[str, Any]) -> None:
        """Remember a problem."""
        self.problems = [*self.problems[-9:], problem]


@dataclass
class _Event:
    id: str
    body: bytes
    give_up_at: float


class Onramp:
    """A queue in front of a gateway.  Thread-safe; make one per process and close it at the end."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        version: str = "1",
        batch: int = 500,
        linger_seconds: float = 0.2,
        queue_size: int = 10_000,
        timeout_seconds: float = 15.0,
        give_up_seconds: float = 300.0,
        gzip_over: int = 1024,
        on_settled: Callable[[str, str, dict[str, Any]], None] | None = None,
    ) -> None:
        """Start the sending thread.

        Args:
            url: the gateway's address, with no path.
            key: the API key.
            version: `metadata.version` of events that do not say their own.
            batch: most events of one request.
            linger_seconds: how long an event waits for company.
            queue_size: most events that wait; `send` raises `QueueFullError` beyond.
            timeout_seconds: longest wait for one answer; above the gateway's deadline.
            give_up_seconds: how long an event is sent again before it counts as unknown.
            gzip_over: bodies larger than this are compressed.
            on_settled: called in the sending thread with an event's id, its outcome (accepted,
                rejected, unknown) and the gateway's answer or problem.
        """
        self.tally = Tally()
        self._target = urlsplit(url)
        self._key = key
        self._version = version
        self._batch = batch
        self._linger = linger_seconds
        self._timeout = timeout_seconds
        self._give_up = give_up_seconds
        self._gzip_over = gzip_over
        self._on_settled = on_settled
        self._queue: queue.Queue[_Event | None] = queue.Queue(queue_size)
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Condition()
        self._pending = 0
        self._closed = False
        self._stop_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="onramp-client", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def __enter__(self) -> "Onramp":  # noqa: PYI034 - also for Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self,
        event_name: str,
        payload: dict[str, Any],
        *,
        id: str | None = None,  # noqa: A002 - the envelope's own word
        timestamp: datetime | None = None,
        version: str | None = None,
        block_seconds: float = 0.0,
    ) -> str:
        """Queue an event and return its id.  Give an id of your own if you may send it again.

        Raises:
            QueueFullError: the queue is full, for `block_seconds`.
            ValueError: the payload is not JSON, or the client is closed.
        """
        if self._closed:
            raise ValueError("the client is closed")
        event_id = id or str(uuid.uuid4())
        moment = timestamp or datetime.now(timezone.utc)  # noqa: UP017 - also for Python 3.10
        envelope = {
            "metadata": {
                "id": event_id,
                "timestamp": moment.isoformat(),
                "version": version or self._version,
            },
            "event_name": event_name,
            "payload": payload,
        }
        body = json.dumps(envelope, allow_nan=False, separators=(",", ":")).encode()
        event = _Event(event_id, body, time.monotonic() + self._give_up)
        with self._lock:
            self._pending += 1
        try:
            self._queue.put(event, block=block_seconds > 0, timeout=block_seconds or None)
        except queue.Full:
            self._settle(1)
            raise QueueFullError(f"{self._queue.maxsize} events are waiting") from None
        self.tally.sent += 1
        return event_id

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait until every event is settled; returns whether all are."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._pending, timeout_seconds)

    def close(self, timeout_seconds: float = 30.0) -> Tally:
        """Flush for at most `timeout_seconds`, stop, and return the tally; what is left is unknown."""
        if not self._closed:
            self._closed = True
            atexit.unregister(self.close)
            self._stop_at = time.monotonic() + timeout_seconds
            self._queue_end()
            self._thread.join(timeout_seconds + self._timeout)
        return self.tally

    def _queue_end(self) -> None:
        with contextlib.suppress(queue.Full):  # then the thread sees `_closed` at the queue's end
            self._queue.put_nowait(None)

    # --- the sending thread ---------------------------------------------------------------

    def _run(self) -> None:
        while True:
            events = self._gather()
            if events:
                self._deliver(events)
            elif self._closed and self._queue.empty():
                break
        if self._connection is not None:
            self._connection.close()

    def _gather(self) -> list[_Event]:
        """The next batch: waits for a first event, then for company while it lingers."""
        events: list[_Event] = []
        until = time.monotonic() + max(self._linger, _IDLE_SECONDS)
        while len(events) < self._batch:
            wait = max(0.0, until - time.monotonic())
            try:
                event = (
                    self._queue.get(timeout=wait) if wait and not self._closed else self._queue.get_nowait()
                )
            except queue.Empty:
                break
            if event is None:
                break
            if not events:
                until = time.monotonic() + self._linger
            events.append(event)
        return events

    def _deliver(self, events: list[_Event]) -> None:
        backoff = _FIRST_BACKOFF
        while events:
            before = len(events)
            events, retry_after = self._attempt(events)
            self._settle(before - len(events))
            now = time.monotonic()
            hopeless = [e for e in events if self._is_late(e, now)]
            for event in hopeless:
                self.tally.unknown += 1
                self._tell(event, "unknown", {})
            self._settle(len(hopeless))
            events = [e for e in events if not self._is_late(e, now)]
            if events:
                # Full jitter: a thousand clients must not come back in one moment.
                self._pause(max(retry_after, random.uniform(0, backoff)))  # noqa: S311
                backoff = min(backoff * 2, _MOST_BACKOFF)

    def _pause(self, seconds: float) -> None:
        """Wait; `close` shortens it to its own deadline."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until and not (self._stop_at and now >= self._stop_at):
            time.sleep(min(0.1, until - now))

    def _attempt(self, events: list[_Event]) -> tuple[list[_Event], float]:
        """Send once; returns the events to send again and how long the gateway asks to wait."""
        try:
            status, headers, document = self._post(b"\n".join(event.body for event in events))
        except (OSError, http.client.HTTPException, ValueError):
            self._disconnect()
            return events, 0.0
        results = document.get("results")
        if status in _WHOLE and isinstance(results, list) and len(results) == len(events):
            again = [e for e, result in zip(events, results) if not self._settled(e, result)]  # noqa: B905
        elif status in _RETRIED:
            again = events
            self.tally.tell(document)
        else:
            again = []
            for event in events:
                self._settled(event, {"status": status, "error": document})
        return again, _seconds(headers.get("Retry-After")) if again else 0.0

    def _settled(self, event: _Event, result: dict[str, Any]) -> bool:
        status = result.get("status")
        if status == http.client.ACCEPTED:
            self.tally.accepted += 1
            self._tell(event, "accepted", result)
            return True
        if status in _RETRIED:
            return False
        self.tally.rejected += 1
        problem = result.get("error") or {}
        self.tally.tell(problem)
        self._tell(event, "rejected", problem)
        return True

    def _tell(self, event: _Event, outcome: str, said: dict[str, Any]) -> None:
        if self._on_settled is not None:
            self._on_settled(event.id, outcome, said)

    def _post(self, body: bytes) -> tuple[int, http.client.HTTPMessage, dict[str, Any]]:
        headers = {"Content-Type": "application/x-ndjson"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        if len(body) > self._gzip_over:
            body = gzip.compress(body, compresslevel=6)
            headers["Content-Encoding"] = "gzip"
        connection = self._connected()
        connection.request("POST", "/v1/events", body, headers)
        answer = connection.getresponse()
        document = json.loads(answer.read() or b"{}")
        return answer.status, answer.headers, document if isinstance(document, dict) else {}

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            host, port = self._target.hostname or "", self._target.port
            if self._target.scheme == "https":
                context = ssl.create_default_context()
                self._connection = http.client.HTTPSConnection(
                    host, port, timeout=self._timeout, context=context
                )
            else:
                self._connection = http.client.HTTPConnection(host, port, timeout=self._timeout)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_late(self, event: _Event, now: float) -> bool:
        return event.give_up_at <= now or (self._stop_at is not None and now >= self._stop_at)

    def _settle(self, count: int) -> None:
        with self._lock:
            self._pending -= count
            if not self._pending:
                self._lock.notify_all()


def send_all(
    url: str, events: Iterable[tuple[str, str, dict[str, Any]]], key: str | None = None, **options: Any
) -> Tally:
    """Send (id, event name, payload) and wait until each is settled: for scripts and Lambdas."""
    with Onramp(url, key, **options) as onramp:
        for event_id, name, payload in events:
            onramp.send(name, payload, id=event_id, block_seconds=60.0)
    return onramp.tally


def _seconds(retry_after: str | None) -> float:
    return float(retry_after) if retry_after and retry_after.isdigit() else 0.0
