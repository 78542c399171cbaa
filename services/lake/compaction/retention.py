"""Chooses the dates that `keep_days` drops: each is observed twice, an hour apart, with the same days.

A wrong clock or a mistaken `keep_days` that is corrected within the hour drops nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from services.lake.compaction.policy import end_of
from shared.lake.delta_files import Partition
from shared.registry import Registry

#: The clock of the day and the clock that cannot be set may differ by this many seconds between observations.
_MAX_CLOCK_STEP: Final = 300.0


class _Observation(NamedTuple):
    keep_days: int
    monotonic: float
    wall: float


def keep_days_of(registry: Registry) -> Mapping[str, int]:
    """Refresh the registry and return `keep_days` by table; nothing while the registry is not valid.

    Compaction does not know ONRAMP_LAKE_ALL: a table with the name of a type may be one of it.
    """
    registry.refresh()
    if not registry.is_read or not registry.is_valid:
        return {}
    snapshot = registry.snapshot()
    types = snapshot.lake_tables(is_all=True)
    days = {table: snapshot.event_types[name].lake.keep_days for table, name in types.items()}
    return {table: keep for table, keep in days.items() if keep is not None}


def expired(partitions: Iterable[Partition], keep_days: int, now: datetime) -> Sequence[Partition]:
    """Return the partitions whose last date is `keep_days` or more before the UTC day of `now`."""
    limit = now.astimezone(UTC).date() - timedelta(days=keep_days)
    ends = ((partition, end_of(partition)) for partition in partitions)
    return sorted((partition for partition, end in ends if end is not None and end <= limit), key=str)


class Confirmation:
    """Confirms that partitions have expired, by a second observation."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        """`seconds` between two observations; `monotonic` is a clock that cannot be set."""
        self._seconds = seconds
        self._monotonic = monotonic
        self._first: dict[tuple[str, Partition], _Observation] = {}

    def confirmed(
        self, table: str, partitions: Sequence[Partition], keep_days: int, now: datetime
    ) -> Sequence[Partition]:
        """Return the expired `partitions` of the table that were observed long enough ago."""
        current = _Observation(keep_days, self._monotonic(), now.timestamp())
        for key in [key for key in self._first if key[0] == table and key[1] not in partitions]:
            del self._first[key]
        done = []
        for partition in partitions:
            first = self._first.get((table, partition))
            if first is None or not _is_consistent(first, current):
                self._first[table, partition] = current
            elif current.monotonic - first.monotonic >= self._seconds:
                done.append(partition)
        return done


def _is_consistent(first: _Observation, second: _Observation) -> bool:
    step = (second.wall - first.wall) - (second.monotonic - first.monotonic)
    return first.keep_days == second.keep_days and abs(step) <= _MAX_CLOCK_STEP
