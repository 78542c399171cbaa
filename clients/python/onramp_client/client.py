"""The client: takes events at once, and goes on in threads until each of them has its verdict."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from . import endings, forks
from .courier import Courier
from .events import ACCEPTED, KEPT, UNKNOWN, Event, QueueFullError, Tally, Verdict
from .keeping import keeping
from .outbox import Bounds, Outbox
from .sending import Sending, partly
from .target import Target
from .telling import OnSettled, Telling

_JOIN_SECONDS = 1.0
_WITHOUT_PROBLEM = (ACCEPTED, KEPT)


class Onramp(Sending):
    """A queue in front of a gateway.  Thread-safe, and safe to fork; close it at the end."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        version: str = "1",
        batch: int = 500,
        batch_bytes: int = 1_000_000,
        linger_seconds: float = 0.2,
        queue_size: int = 10_000,
        queue_bytes: int = 64 * 2**20,
        connections: int = 2,
        timeout_seconds: float = 15.0,
        give_up_seconds: float = 300.0,
        backoff_seconds: float = 0.2,
        gzip_over: int | None = 1024,
        spool: str | Path | None = None,
        spool_bytes: int = 256 * 2**20,
        on_settled: OnSettled | None = None,
        telling: Telling | None = None,
    ) -> None:
        """Nothing is sent or started before the first event, but what an earlier process left in the spool.

        Args:
            url: the gateway's address; it may have a path before /v1/events.
            key: the API key.
            version: `metadata.version` of events that do not say their own.
            batch: most events of one request.
            batch_bytes: most bytes of one request, before gzip; an event alone may have more.
            linger_seconds: how long an event waits for company.
            queue_size: most events that are not settled; `send` raises `QueueFullError` beyond.
            queue_bytes: most bytes that are not settled.
            connections: requests at a time; with one, events that need no retry keep their order.
            timeout_seconds: longest wait for one answer; above the gateway's deadline.
            give_up_seconds: how long an event is sent again before it counts as unknown.  With a
                spool nothing is given up.
            backoff_seconds: longest pause before the first retry; it doubles with each.
            gzip_over: bodies larger than this are compressed; None: none.
            spool: a folder where events are kept until they are settled, beyond the process's end.
            spool_bytes: most bytes of this process's file there.
            on_settled: called in a sending thread with an event's id, its outcome (accepted,
                rejected, unknown, kept) and the gateway's receipt or problem.
            telling: instead of `on_settled`: told of all that one answer settles at once.

        Raises:
            ValueError: the URL is no http or https one.
        """
        super().__init__(version)
        self._give_up = float("inf") if spool else give_up_seconds
        self._bounds = Bounds(
            events=queue_size,
            bytes=queue_bytes,
            batch_events=batch,
            batch_bytes=batch_bytes,
            linger=linger_seconds,
        )
        self._courier = Courier(Target.of(url), key, timeout_seconds, backoff_seconds, gzip_over)
        self._connections = connections
        self._telling = telling or Telling(on_settled)
        self._spool = keeping(spool, spool_bytes)
        self._closed = False
        self._begin()
        forks.watch(self)
        self._replay()

    def __enter__(self) -> Self:
        """Use as a context, so that it is closed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def send_many_bytes(self, events: Iterable[tuple[str, bytes]], *, block_seconds: float = 0.0) -> None:
        """Queue envelopes' ids and very bytes, each one line of JSON; raises as `send_many` does."""
        given = list(events)
        with self._changed:
            until = (now := time.monotonic()) + block_seconds
            for at, (event_id, body) in enumerate(given):
                try:
                    if not self._is_free_for(len(body)):
                        now = self._wait_for_room(len(body), until)
                    if self._closed:
                        raise ValueError("the client is closed")
                    ticket = self._spool.append(body)
                except (QueueFullError, OSError) as error:
                    raise partly(error, [each for each, _ in given[:at]]) from None
                self._take(Event(event_id, body, now + self._give_up, ticket), now)
                self.tally.sent += 1

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait until every event is settled; returns whether all are."""
        with self._changed:
            self._hurried += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self._outbox.pending, timeout_seconds)
            finally:
                self._hurried -= 1

    def wait(self, seconds: float) -> None:
        """Wait until something is settled, or is to be sent again; at most so long."""
        with self._changed:
            self._changed.wait(seconds)

    def close(self, timeout_seconds: float = 30.0) -> Tally:
        """Flush for at most `timeout_seconds`, stop, and return the tally.

        What is left is kept if there is a spool, and unknown if there is none.
        """
        if not self._closed:
            self._closed = True
            endings.forget(self.close)
            self.flush(timeout_seconds)
            self._stop()
            self._spool.close()
        return self.tally

    # --- the state, which a child of a fork begins anew ---------------------------------------

    def hold(self) -> None:
        """Before a fork: nothing changes."""
        self._changed.acquire()

    def release(self) -> None:
        """In the parent of a fork: go on."""
        self._changed.release()

    def begin_anew(self) -> None:
        """In the child of a fork: what was there is the parent's."""
        self._courier.forget()
        self._spool.forget()
        self._begin()

    def _begin(self) -> None:
        self.tally = Tally()
        self._outbox = Outbox(self._bounds)
        self._changed = threading.Condition(threading.Lock())
        self._threads: list[threading.Thread] = []
        self._hurried = 0
        self._has_stopped = False
        self._closed = False

    def _wait_for_room(self, size: int, until: float) -> float:
        """Wait until an event of that size may come in; returns what time it is then."""
        if not self._changed.wait_for(lambda: self._is_free_for(size), max(0.0, until - time.monotonic())):
            raise QueueFullError(f"{self._outbox.pending:,} events wait for the gateway; {self._spool.told}")
        return time.monotonic()

    def _is_free_for(self, size: int) -> bool:
        return self._closed or (self._outbox.has_room(size) and self._spool.has_room(size))

    def _take(self, event: Event, now: float) -> None:
        if self._outbox.add(event, now):
            self._changed.notify()
        if not self._threads:
            self._start()

    def _start(self) -> None:
        endings.at_end(self.close)
        self._threads = [
            threading.Thread(target=self._run, args=(self._outbox,), name="onramp-client", daemon=True)
            for _ in range(self._connections)
        ]
        for thread in self._threads:
            thread.start()

    def _stop(self) -> None:
        with self._changed:
            left = self._outbox.abandon()
            self._has_stopped = True
            self._changed.notify_all()
        self._courier.abort()
        self._settle(self._outbox, [(event, self._left_as(event), said) for event, said in left])
        deadline = time.monotonic() + _JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _left_as(self, event: Event) -> str:
        return UNKNOWN if event.ticket is None else KEPT

    def _replay(self) -> None:
        """Take what processes that are gone have left in the spool, a file of it at a time."""
        with self._changed:
            if self._has_stopped:
                return
            now = time.monotonic()
            for event_id, body, ticket in self._spool.adopt():
                self._take(Event(event_id, body, float("inf"), ticket), now)

    # --- the sending threads ------------------------------------------------------------------

    def _run(self, outbox: Outbox) -> None:
        with contextlib.closing(self._courier.line()) as line:
            while (batch := self._next(outbox)) is not None:
                self._spool.sync()
                outcome = self._courier.deliver(line, batch)
                with self._changed:
                    if not outbox.landed(batch):
                        continue  # It was given up by `close`, which has said so.
                    if outcome.too_many_bytes:
                        outbox.refused(outcome.too_many_bytes)
                    for part in outcome.again:
                        outbox.put_back(part)
                    if outcome.again:
                        self.tally.tell(outcome.said)
                        self._changed.notify()
                self._settle(outbox, outcome.settled)

    def _next(self, outbox: Outbox) -> Any:
        """Wait for a batch; None ends the thread, also one that a fork has made a stranger's."""
        with self._changed:
            while outbox is self._outbox and not (self._closed and not outbox.pending):
                now = time.monotonic()
                batch = outbox.take(now, hurry=bool(self._hurried or self._closed))
                if batch is not None:
                    return batch
                self._changed.wait(outbox.wait(now))
        return None

    def _settle(self, outbox: Outbox, verdicts: list[Verdict]) -> None:
        if not verdicts:
            return
        self._spool.settle([event.ticket for event, outcome, _ in verdicts if outcome != KEPT])
        failed = self._telling.tell(verdicts)
        if self._spool.wants_more():
            self._replay()  # Before these are settled: who flushes waits for what was left as well.
        with self._changed:
            for outcome, count in Counter(outcome for _, outcome, _ in verdicts).items():
                self.tally.count(outcome, count)
            for _, outcome, said in verdicts:
                if outcome not in _WITHOUT_PROBLEM:
                    self.tally.tell(said)
            self.tally.callback_errors += failed
            outbox.settle([event for event, _, _ in verdicts])
            self._changed.notify_all()


def send_all(
    url: str, events: Iterable[tuple[str, str, dict[str, Any]]], key: str | None = None, **options: Any
) -> Tally:
    """Send (id, event name, payload) and wait until each is settled: for scripts."""
    with Onramp(url, key, **options) as onramp:
        for event_id, name, payload in events:
            onramp.send(name, payload, id=event_id, block_seconds=60.0)
    return onramp.tally
