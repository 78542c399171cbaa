"""Sets a partition aside at which a batch fails for a reason that nobody foresaw: the others land.

The batch is done again in halves, by partitions, then by the offsets of one that fails alone, so
that what lies before the fault lands too.  Nothing is skipped: a partition that is set aside stands
where it stood, keeps the routes that its range began with, and is tried again (docs/adr, one record).
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from traceback import extract_tb
from typing import Final, NamedTuple

from services.writer.kafka.producer import is_foreseen, is_too_large
from services.writer.model import halt_reasons
from services.writer.model.offsets import Partition, Range
from shared.errors import OnrampError
from shared.tracebacks import FOREIGN, NAMED

log = logging.getLogger(__name__)

Work = Callable[[Sequence[Range]], Awaitable[None]]
#: Seconds until a partition is tried again: mended by a release, an operator, or by itself.
_AGAIN: Final = (5.0, 15.0, 60.0)


class Fault(NamedTuple):
    """A range that fails at its first offset, and why."""

    range: Range
    error: Exception


class Strikes:
    """Where partitions have failed so, and how often: kept while the process lives."""

    def __init__(self) -> None:
        self._at: dict[Partition, tuple[int, int]] = {}

    def count(self, faults: Iterable[Fault]) -> None:
        """They have failed once more."""
        for r, _ in faults:
            at, times = self._at.get(r.partition, (r.start, 0))
            self._at[r.partition] = (r.start, times + 1 if at == r.start else 1)

    def knows(self, r: Range) -> bool:
        """Whether it has failed at its first offset before."""
        return self._at.get(r.partition, (None, 0))[0] == r.start

    def again_at(self, p: Partition) -> float:
        """When to try it again (monotonic)."""
        _, times = self._at[p]
        return time.monotonic() + _AGAIN[min(times, len(_AGAIN)) - 1]


async def in_halves(ranges: Sequence[Range], work: Work) -> list[Fault]:
    """Do `work`, which failed for all of `ranges`, for halves of them; returns those that fail alone."""
    if len(ranges) == 1:
        error = await _attempt(ranges, work)
        return [Fault(ranges[0], error)] if error else []
    faults: list[Fault] = []
    middle = len(ranges) // 2
    for half in (ranges[:middle], ranges[middle:]):
        if (error := await _attempt(half, work)) is not None:
            faults += await in_halves(half, work) if len(half) > 1 else [Fault(half[0], error)]
    return faults


async def up_to_fault(fault: Fault, work: Work, *, known: bool) -> Fault | None:
    """Do `work` up to the first offset at which it raises; None: it raises no more.

    `known`: it is the range's first, so that no more than this is tried.
    """
    whole = fault.range
    start, end = whole.start, whole.start + 1 if known else whole.end
    while start < whole.end:
        while end - start > 1:
            middle = (start + end) // 2
            if await _attempt([replace(whole, start=start, end=middle)], work):
                end = middle
            else:
                start = middle
        if error := await _attempt([replace(whole, start=start, end=end)], work):
            return Fault(replace(whole, start=start), error)
        start, end = end, whole.end  # what failed in company does not fail alone
    return None


async def _attempt(ranges: Sequence[Range], work: Work) -> Exception | None:
    """The exception that nobody foresaw, or what is too large; any other is raised."""
    try:
        await work(ranges)
    except Exception as e:
        if is_foreseen(e):
            raise
        return e
    return None


def why(fault: Fault) -> tuple[str, str]:
    """Why its partition is halted, and what to do about it."""
    r, error = fault
    if is_too_large(error):
        return halt_reasons.too_large(r.start, error.detail), halt_reasons.make_room(r.partition, r.start)
    return halt_reasons.unforeseen(r.start, kind_of(error)), halt_reasons.try_again(r.partition, r.start)


def kind_of(error: Exception) -> str:
    """The exception's type and where in the code it was raised; none of its text: values may be there."""
    if isinstance(error, OnrampError):
        return str(error)  # its words are ours
    if type(error).__module__.startswith(FOREIGN):
        return next(reversed([m[1] for m in NAMED.finditer(str(error))]), type(error).__name__)
    last = extract_tb(error.__traceback__)[-1:]
    return type(error).__name__ + "".join(f" ({f.name}, line {f.lineno})" for f in last)
