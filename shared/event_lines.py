"""Logs a line per event up to a rate per process; above it a sample and the number of omitted lines.

`logging` costs 35 µs a line, more than the event itself, so these lines are written without it
(docs/adr/0042-event-log-lines.md).  Lines about failures have priority: they may borrow from the next second.
"""

import atexit
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from shared import logs

Entry = dict[str, Any]
#: Writes lines, and returns the number of unwritten ones.
Write = Callable[[Sequence[bytes]], int | None]

_SECOND: Final = 1.0
#: The outcome of lines that were not read in time.
_UNWRITTEN: Final = "unwritten"


class EventLines:
    """The event lines of one process; any of its threads may write."""

    def __init__(
        self,
        service: str,
        logger: str,
        per_second: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        write: Write = logs.write_lines,
    ) -> None:
        self._service = service
        self._logger = logger
        self._per_second = per_second
        self._clock = clock
        self._write = write
        self._lock = threading.Lock()
        #: Lines that may be written now; below zero, failures borrowed them.
        self._level: float = per_second
        self._at = clock()
        self._suppressed: dict[str, int] = {}
        atexit.register(self.write_summary, is_last=True)

    def grant(self, failures: int, others: int = 0) -> tuple[int, int]:
        """Return the number of lines to write now, for failed events and for others."""
        with self._lock:
            now = self._clock()
            level = min(self._level + (now - self._at) * self._per_second, self._per_second)
            self._at = now
            of_failures = min(failures, int(level + self._per_second)) if failures else 0
            level -= of_failures
            of_others = min(others, int(level)) if level >= 1 else 0
            self._level = level - of_others
        return of_failures, of_others

    def write(self, message: str, entries: Iterable[Entry]) -> None:
        """Write a line for each of `entries`, as many as were granted."""
        if unwritten := self._lines(message, entries):
            self.suppress({_UNWRITTEN: unwritten})

    def _lines(self, message: str, entries: Iterable[Entry]) -> int | None:
        head = logs.head(self._service, self._logger, message)
        return self._write([logs.line(head | entry) for entry in entries])

    def suppress(self, counts: Mapping[str, int]) -> None:
        """Count events without a line, by outcome; a summary line follows within a second."""
        with self._lock:
            is_scheduled = bool(self._suppressed)
            for outcome, n in counts.items():
                if n:
                    self._suppressed[outcome] = self._suppressed.get(outcome, 0) + n
            begins = bool(self._suppressed) and not is_scheduled
        if begins:
            self._schedule_summary()

    def write_summary(self, *, is_last: bool = False) -> None:
        """Write the number of events without a line since the last summary, if any."""
        with self._lock:
            suppressed, self._suppressed = self._suppressed, {}
        if suppressed:
            counts = {str(outcome): n for outcome, n in suppressed.items()}
            entry = {"suppressed": counts, "lines_per_second": self._per_second}
            if self._lines("event lines left out", [entry]) and not is_last:
                self.suppress(suppressed)  # reported once the log has a reader

    def _schedule_summary(self) -> None:
        timer = threading.Timer(_SECOND, self.write_summary)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:  # no thread is available, or the process ends
            self.write_summary(is_last=True)


@cache
def of_process(service: str, logger: str, per_second: int) -> EventLines:
    """Return the event lines of this process, shared by all its threads."""
    return EventLines(service, logger, per_second)


def lines_at_level(per_second: int, level: str) -> int:
    """Return the lines per second at the minimum log level `level`: event lines are at INFO."""
    return per_second if logging.getLevelNamesMapping().get(level, logging.INFO) <= logging.INFO else 0


def spread(count: int, limit: int) -> list[int]:
    """Return the indexes of at most `limit` of `count` items, evenly spread."""
    return [n * count // limit for n in range(limit)] if limit < count else list(range(count))
