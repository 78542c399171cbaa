"""SORT's events one by one, where together they meet an exception that nobody foresaw."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from services.writer.arrivals import Run, cut
from services.writer.halving import Odds, halve
from services.writer.sort import Sorted, Unroutable
from shared.errors import INTERNAL_SORT, OnrampError, UserError

#: What is no event's fault, whoever meets it.
_PASSES_ON: Final = (OnrampError, MemoryError)
#: What passed and what failed in this process.
_odds = Odds()


def take_each(take: Callable[[Sequence[Run]], None], read: Sequence[Run]) -> Iterator[tuple[Run, Sorted]]:
    """`take` all that was `read`; yields each record at which it raises alone, with its verdict.

    Raises the exception when it is too many's to be theirs.
    """
    whole = sum(map(len, read))
    try:
        take(read)
    except _PASSES_ON:
        raise
    except Exception:  # noqa: BLE001 - whose fault it is, is what is asked now
        yield from _apart(take, read, whole)
    else:
        _odds.passed(whole)


def _apart(
    take: Callable[[Sequence[Run]], None], read: Sequence[Run], whole: int
) -> Iterator[tuple[Run, Sorted]]:
    failed = halve(whole, lambda start, end: take(list(cut(read, start, end))), _PASSES_ON)
    alone = [(next(cut(read, at, at + 1)), e) for at, e in failed.items()]
    if alone and not _odds.are_at_fault(
        [(*run.partition, run.first) for run, _ in alone], whole - len(alone)
    ):
        raise alone[0][1]
    for run, e in alone:
        error = UserError(INTERNAL_SORT, f"{type(e).__name__}, where others passed")
        value = run.rows.column("value")[0].as_py()
        yield run, Sorted(unroutable=[Unroutable(run.first, value, error)])
