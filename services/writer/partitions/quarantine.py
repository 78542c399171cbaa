"""Quarantines a partition whose records fail a batch with an unexpected exception: the others land.

The batch is repeated in halves, by partitions, then by the offsets of a partition that fails alone,
so that the events before the fault land too.  No event is skipped: a quarantined partition keeps its
position and the routes of its range, and is tried again (docs/adr, one record).
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from traceback import extract_tb
from typing import Final, NamedTuple

from services.writer.kafka.producer import is_expected, is_too_large
from services.writer.model import halt_reasons
from shared.errors import OnrampError
from shared.kafka_read.offsets import Partition, Range
from shared.tracebacks import FOREIGN, NAMED

log = logging.getLogger(__name__)

Settle = Callable[[Sequence[Range]], Awaitable[None]]
#: Seconds until a partition is tried again, after the first, second and further failures.
_RETRY_SECONDS: Final = (5.0, 15.0, 60.0)


class Fault(NamedTuple):
    """A range that fails at its first offset, and its exception."""

    range: Range
    error: Exception


class Strikes:
    """The offset at which each partition failed, and the number of failures in a row; in memory only."""

    def __init__(self) -> None:
        self._failures: dict[Partition, tuple[int, int]] = {}

    def count(self, faults: Iterable[Fault]) -> None:
        """Count one more failure for each of `faults`."""
        for r, _ in faults:
            start, times = self._failures.get(r.partition, (r.start, 0))
            self._failures[r.partition] = (r.start, times + 1 if start == r.start else 1)

    def knows(self, r: Range) -> bool:
        """Return whether `r` has failed at its first offset before."""
        return self._failures.get(r.partition, (None, 0))[0] == r.start

    def retry_at(self, p: Partition) -> float:
        """Return the time at which to try `p` again (monotonic seconds)."""
        _, times = self._failures[p]
        return time.monotonic() + _RETRY_SECONDS[min(times, len(_RETRY_SECONDS)) - 1]


async def in_halves(ranges: Sequence[Range], settle: Settle) -> list[Fault]:
    """Settle halves of `ranges`, which failed together; return the ranges that fail alone."""
    if len(ranges) == 1:
        error = await _attempt(ranges, settle)
        return [Fault(ranges[0], error)] if error else []
    faults: list[Fault] = []
    middle = len(ranges) // 2
    for half in (ranges[:middle], ranges[middle:]):
        if (error := await _attempt(half, settle)) is not None:
            faults += await in_halves(half, settle) if len(half) > 1 else [Fault(half[0], error)]
    return faults


async def up_to_fault(fault: Fault, settle: Settle, *, known: bool) -> Fault | None:
    """Settle up to the first offset at which `settle` raises, and return that fault, or None.

    `known`: the range's first offset has failed before, so no other offset is tried.
    """
    whole = fault.range
    start, end = whole.start, whole.start + 1 if known else whole.end
    while start < whole.end:
        while end - start > 1:
            middle = (start + end) // 2
            if await _attempt([replace(whole, start=start, end=middle)], settle):
                end = middle
            else:
                start = middle
        if error := await _attempt([replace(whole, start=start, end=end)], settle):
            return Fault(replace(whole, start=start), error)
        start, end = end, whole.end  # offsets that failed together do not fail alone
    return None


async def _attempt(ranges: Sequence[Range], settle: Settle) -> Exception | None:
    """Return an unexpected exception or the error of a record that is too large; raise any other."""
    try:
        await settle(ranges)
    except Exception as e:
        if is_expected(e):
            raise
        return e
    return None


def halt_reason(fault: Fault) -> tuple[str, str]:
    """Return the reason for which the partition of `fault` is halted, and the fix."""
    r, error = fault
    if is_too_large(error):
        return halt_reasons.too_large(r.start, error.detail), halt_reasons.make_room(r.partition, r.start)
    return halt_reasons.unforeseen(r.start, describe(error)), halt_reasons.try_again(r.partition, r.start)


def describe(error: Exception) -> str:
    """Return an exception's type and location, without its text, which may contain values of events."""
    if isinstance(error, OnrampError):
        return str(error)  # Onramp's own text has no values
    if type(error).__module__.startswith(FOREIGN):
        return next(reversed([m[1] for m in NAMED.finditer(str(error))]), type(error).__name__)
    last = extract_tb(error.__traceback__)[-1:]
    return type(error).__name__ + "".join(f" ({f.name}, line {f.lineno})" for f in last)
