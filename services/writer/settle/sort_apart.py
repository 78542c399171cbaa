"""Sorts events one by one when sorting them together raises an unexpected exception."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from services.writer.model.bisect_failures import Failed, Odds, halve
from services.writer.sort.sort import Sorted, Unroutable
from shared.errors import INTERNAL_SORT, OnrampError, UserError
from shared.kafka_read.identity import identities
from shared.kafka_read.records import PartitionSlice, cut, rows_by_topic

#: Exceptions that are never an event's fault.
_PASSES_ON: Final = (OnrampError, MemoryError)
#: The events that passed and failed in this process.
_odds = Odds()


def sort_one_by_one(
    sort_slices: Callable[[Sequence[PartitionSlice]], None], slices: Sequence[PartitionSlice]
) -> Iterator[tuple[PartitionSlice, Sorted]]:
    """Call `sort_slices` for `slices`; yield each record that fails alone, as unroutable.

    Raises the exception when it fails for too many records to be their fault.
    """
    try:
        sort_slices(slices)
    except _PASSES_ON:
        raise
    except Exception:  # noqa: BLE001 - `_isolate` finds the records at fault, or raises it
        yield from _isolate(sort_slices, slices)
    else:
        _odds.passed(rows_by_topic(slices))


def _isolate(
    sort_slices: Callable[[Sequence[PartitionSlice]], None], slices: Sequence[PartitionSlice]
) -> Iterator[tuple[PartitionSlice, Sorted]]:
    whole = rows_by_topic(slices)
    failed = halve(whole.total(), lambda start, end: sort_slices(list(cut(slices, start, end))), _PASSES_ON)
    alone = [(next(cut(slices, i, i + 1)), e) for i, e in failed.items()]
    failed_events = [Failed(run.partition.topic, (run.partition.number, run.first)) for run, _ in alone]
    if alone and not _odds.are_at_fault(
        failed_events, whole - Counter(run.partition.topic for run, _ in alone)
    ):
        raise alone[0][1]
    for run, e in alone:
        error = UserError(INTERNAL_SORT, f"{type(e).__name__}, where others passed")
        value = run.rows.column("value")[0].as_py()
        (identity,) = identities(run.rows, [None], [None], [None])
        yield run, Sorted(unroutable=[Unroutable(run.first, value, error, identity=identity)])
