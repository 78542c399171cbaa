"""The state that locust's users share: the schedule, the bodies, the numbers and the history.

The load is an open model: when a request is due is decided before the run and waits for no
answer.  A user takes the next start, waits for its moment and sends.  When all users are
busy a start is late, and its latency counts from when it was intended all the same.
"""

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gevent
from gevent.event import Event

from loadtest.bodies import Bodies, Names
from loadtest.history import Reporter
from loadtest.shapes import Shape, Step

#: Where the runner has written what this generator is to do.
ORDER: Final = "ONRAMP_LOAD_ORDER"
#: The file in the order's folder that requests an early end.
STOP: Final = "stop"
_FLUSH_SECONDS: Final = 0.02
_LEASED_REQUESTS: Final = 200
#: So that the first request is not late for the last user's birth.
_BEFORE_THE_FIRST: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of a generator: its load and its target."""

    shape: Shape
    names: Names
    history: str
    api_key: str
    bootstrap: str
    topic: str
    syslog: tuple[str, int] | None
    ca_file: str = ""

    def write(self, file: Path) -> None:
        """Store the order for the generator, readable by its owner only: it has a key."""
        shape = {f: getattr(self.shape, f) for f in self.shape.__slots__}
        shape["steps"] = [[s.seconds, s.rate] for s in self.shape.steps]
        rest = {f: getattr(self, f) for f in self.__slots__ if f not in ("shape", "names")}
        file.touch(mode=0o600)
        file.write_text(json.dumps({**rest, "shape": shape, "names": [self.names.run, self.names.database]}))


def read_order(file: Path) -> Order:
    """Read what `Order.write` has written."""
    document: dict[str, Any] = json.loads(file.read_text())
    shape = document.pop("shape")
    shape["steps"] = tuple(Step(*step) for step in shape["steps"])
    syslog = document.pop("syslog")
    return Order(
        shape=Shape(**shape),
        names=Names(*document.pop("names")),
        syslog=tuple(syslog) if syslog else None,
        **document,
    )


class Load:
    """One run, from inside of locust."""

    def __init__(self, order: Order, stop: Path) -> None:
        """Connect to the writer of the history.  Sending ends when the file `stop` exists."""
        self.order = order
        self.bodies = Bodies(order.shape, order.names)
        self.busy = 0
        self._stop = stop
        self._reporter = Reporter(order.history, order.shape.batch * _LEASED_REQUESTS)
        self._starts: Iterator[float] = order.shape.starts()
        self._began: float | None = None
        self._ready = Event()
        self._over = False
        self._lock = threading.Lock()
        gevent.spawn(self._flush)

    def start(self) -> None:
        """Start the schedule's clock, once all users are connected."""
        if self._began is None:
            self._began = time.monotonic() + _BEFORE_THE_FIRST
            self._ready.set()

    def next_start(self) -> float | None:
        """Return the due time of the next request; None after the last."""
        self._ready.wait()
        with self._lock:
            start = next(self._starts, None)
        if start is None:
            self._over = True
            return None
        return (self._began or 0.0) + start

    def done(self) -> bool:
        """Return whether everything is sent and answered, or answered after the runner requested the end."""
        if self._stop.exists():
            self._starts = iter(())
        return self._over and not self.busy

    def numbers(self) -> int:
        """Return the first number of the next request."""
        return self._reporter.numbers(self.order.shape.batch)

    def note(
        self,
        outcome: str,
        first: int,
        count: int,
        times: tuple[float, float, float],
        *,
        wire: int,
        reason: str | None = None,
        record: tuple[int | None, int | None] = (None, None),
    ) -> None:
        """Write the outcome of numbers into the history; `times`: intended, began, ended."""
        self._reporter.note(outcome, first, count, *times, wire, reason, *record)

    def close(self) -> None:
        """End in order."""
        self._reporter.close()

    def _flush(self) -> None:
        while True:
            gevent.sleep(_FLUSH_SECONDS)
            self._reporter.flush()


def from_environment() -> Load:
    """Return the run that the runner has ordered."""
    file = Path(os.environ[ORDER])
    return Load(read_order(file), file.with_name(STOP))
