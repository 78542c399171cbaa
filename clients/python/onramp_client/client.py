"""The client: queues events at once, and sends them from threads until each has a verdict."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from . import forks, process_exit
from .callbacks import Callbacks, OnSettled
from .events import ACCEPTED, SPOOLED, UNKNOWN, Event, QueueFullError, Tally, Verdict
from .outbox import Batch, Bounds, Outbox
from .sending import Sending, with_queued
from .spool_port import open_spool
from .target import Target
from .transport import Transport

_JOIN_SECONDS = 1.0
_OUTCOMES_WITHOUT_PROBLEM = (ACCEPTED, SPOOLED)


class Onramp(Sending):
    """A queue in front of a gateway. Thread-safe and fork-safe; must be closed at the end."""

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
        callbacks: Callbacks | None = None,
    ) -> None:
        """Start no thread before the first event, except to send the spool of an earlier process.

        Args:
            url: the gateway's address; it may have a path before /v1/events.
            key: the API key.
            version: `metadata.version` of events without their own.
            batch: maximum events in one request.
            batch_bytes: maximum bytes in one request, before gzip; a single event may have more.
            linger_seconds: maximum time that an event waits for others, to share a request.
            queue_size: maximum unsettled events; `send` raises `QueueFullError` above it.
            queue_bytes: maximum unsettled bytes.
            connections: maximum concurrent requests; with one, events without a retry keep their order.
            timeout_seconds: maximum wait for one answer; above the gateway's deadline.
            give_up_seconds: seconds of retries before an event counts as unknown. With a
                spool no event is given up.
            backoff_seconds: maximum pause before the first retry; it doubles with each.
            gzip_over: minimum bytes of a body to compress; None: never.
            spool: a folder that stores events until they are settled, beyond the process's end.
            spool_bytes: maximum bytes of this process's file there.
            on_settled: called in a sending thread with an event's id, its outcome (accepted,
                rejected, unknown, spooled) and the gateway's receipt or problem.
            callbacks: replaces `on_settled`: called with all verdicts of one answer at once.

        Raises:
            ValueError: the URL is not an http or https URL.
        """
        super().__init__(version)
        self._give_up_seconds = float("inf") if spool else give_up_seconds
        self._bounds = Bounds(
            events=queue_size,
            bytes=queue_bytes,
            batch_events=batch,
            batch_bytes=batch_bytes,
            linger_seconds=linger_seconds,
        )
        self._transport = Transport(
            Target.from_url(url),
            key,
            timeout_seconds=timeout_seconds,
            backoff_seconds=backoff_seconds,
            gzip_over=gzip_over,
        )
        self._connections = connections
        self._callbacks = callbacks or Callbacks(on_settled)
        self._spool = open_spool(spool, spool_bytes)
        self._closed = False
        self._reset()
        forks.watch(self)
        self._replay()

    def __enter__(self) -> Self:
        """Return the client; leaving the context closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        self.close()

    def send_many_bytes(self, events: Iterable[tuple[str, bytes]], *, block_seconds: float = 0.0) -> None:
        """Queue ids and the bytes of their envelopes, each one line of JSON; raises like `send_many`."""
        envelopes = list(events)
        with self._changed:
            until = (now := time.monotonic()) + block_seconds
            for index, (event_id, body) in enumerate(envelopes):
                try:
                    if not self._is_free_for(len(body)):
                        now = self._wait_for_room(len(body), until)
                    if self._closed:
                        raise ValueError("the client is closed")
                    ticket = self._spool.append(body)
                except (QueueFullError, OSError) as error:
                    raise with_queued(error, [each for each, _ in envelopes[:index]]) from None
                self._add(Event(event_id, body, now + self._give_up_seconds, ticket), now)
                self.tally.sent += 1

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait until every event is settled; return whether all are, after at most `timeout_seconds`."""
        with self._changed:
            self._flushing += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self._outbox.pending, timeout_seconds)
            finally:
                self._flushing -= 1

    def wait(self, seconds: float) -> None:
        """Wait until an event is settled or must be sent again, at most `seconds`."""
        with self._changed:
            self._changed.wait(seconds)

    def close(self, timeout_seconds: float = 30.0) -> Tally:
        """Flush for at most `timeout_seconds`, stop the threads, and return the tally.

        Events without a verdict are `spooled` if there is a spool, else `unknown`.
        """
        if not self._closed:
            self._closed = True
            process_exit.unregister(self.close)
            self.flush(timeout_seconds)
            self._stop()
            self._spool.close()
        return self.tally

    # --- the state, which the child of a fork resets -------------------------------------------

    def hold(self) -> None:
        """Lock the state; called before a fork."""
        self._changed.acquire()

    def release(self) -> None:
        """Unlock the state; called in the parent after a fork."""
        self._changed.release()

    def reset_in_child(self) -> None:
        """Reset to no events, threads and connections; called in the child."""
        self._transport.forget()
        self._spool.forget()
        self._reset()

    def _reset(self) -> None:
        self.tally = Tally()
        self._outbox = Outbox(self._bounds)
        self._changed = threading.Condition(threading.Lock())
        self._threads: list[threading.Thread] = []
        self._flushing = 0
        self._has_stopped = False
        self._closed = False

    def _wait_for_room(self, size: int, until: float) -> float:
        """Wait until there is room for `size` bytes, at most until `until`; return the current time."""
        if not self._changed.wait_for(lambda: self._is_free_for(size), max(0.0, until - time.monotonic())):
            raise QueueFullError(f"{self._outbox.pending:,} events wait for the gateway; {self._spool.usage}")
        return time.monotonic()

    def _is_free_for(self, size: int) -> bool:
        return self._closed or (self._outbox.has_room(size) and self._spool.has_room(size))

    def _add(self, event: Event, now: float) -> None:
        if self._outbox.add(event, now):
            self._changed.notify()
        if not self._threads:
            self._start()

    def _start(self) -> None:
        process_exit.register(self.close)
        self._threads = [
            threading.Thread(target=self._run, args=(self._outbox,), name="onramp-client", daemon=True)
            for _ in range(self._connections)
        ]
        for thread in self._threads:
            thread.start()

    def _stop(self) -> None:
        with self._changed:
            unsettled = self._outbox.abandon()
            self._has_stopped = True
            self._changed.notify_all()
        self._transport.abort()
        verdicts = [(event, self._final_outcome(event), problem) for event, problem in unsettled]
        self._settle(self._outbox, verdicts)
        deadline = time.monotonic() + _JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _final_outcome(self, event: Event) -> str:
        return UNKNOWN if event.ticket is None else SPOOLED

    def _replay(self) -> None:
        """Queue events of ended processes in the spool, one file at a time."""
        with self._changed:
            if self._has_stopped:
                return
            now = time.monotonic()
            for event_id, body, ticket in self._spool.adopt():
                self._add(Event(event_id, body, float("inf"), ticket), now)

    # --- the sending threads ------------------------------------------------------------------

    def _run(self, outbox: Outbox) -> None:
        with contextlib.closing(self._transport.connect()) as connection:
            while (batch := self._next_batch(outbox)) is not None:
                self._spool.sync()
                result = self._transport.send(connection, batch)
                with self._changed:
                    if not outbox.finish(batch):
                        continue  # `close` abandoned the batch and settled its events.
                    if result.too_many_bytes:
                        outbox.shrink_batches(result.too_many_bytes)
                    for part in result.again:
                        outbox.retry(part)
                    if result.again:
                        self.tally.add_problem(result.problem)
                        self._changed.notify()
                self._settle(outbox, result.settled)

    def _next_batch(self, outbox: Outbox) -> Batch | None:
        """Wait for a batch; None ends the thread, also after a fork replaced the client's outbox."""
        with self._changed:
            while outbox is self._outbox and not (self._closed and not outbox.pending):
                now = time.monotonic()
                batch = outbox.next_batch(now, flush=bool(self._flushing or self._closed))
                if batch is not None:
                    return batch
                self._changed.wait(outbox.delay(now))
        return None

    def _settle(self, outbox: Outbox, verdicts: list[Verdict]) -> None:
        if not verdicts:
            return
        self._spool.settle([event.ticket for event, outcome, _ in verdicts if outcome != SPOOLED])
        failed = self._callbacks.report(verdicts)
        if self._spool.wants_more():
            self._replay()  # Before these are settled: `flush` waits for events of the spool as well.
        with self._changed:
            for outcome, count in Counter(outcome for _, outcome, _ in verdicts).items():
                self.tally.count(outcome, count)
            for _, outcome, document in verdicts:
                if outcome not in _OUTCOMES_WITHOUT_PROBLEM:
                    self.tally.add_problem(document)
            self.tally.callback_errors += failed
            outbox.settle([event for event, _, _ in verdicts])
            self._changed.notify_all()


def send_all(
    url: str, events: Iterable[tuple[str, str, dict[str, Any]]], key: str | None = None, **options: Any
) -> Tally:
    """Send events (id, name, payload), wait until each is settled, and return the tally; for scripts."""
    with Onramp(url, key, **options) as onramp:
        for event_id, name, payload in events:
            onramp.send(name, payload, id=event_id, block_seconds=60.0)
    return onramp.tally
