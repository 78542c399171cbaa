"""`keep_days` drops dates only after two consistent observations, and counts the rows in the same commit."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from services.lake.compaction.delta_drop import drop
from services.lake.compaction.retention import Confirmation, expired
from shared.lake.delta_files import Partition
from shared.lake.transactions import DROPPED_BEFORE, dropped_id
from tests.fixtures.delta_tables import TOPIC, append, receipts, small_files

NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)
OLD, OLDER = Partition("_date", "2026-03-01"), Partition("_date", "2026-02-28")


class Clock:
    """A clock for a machine whose wall clock may be set."""

    def __init__(self) -> None:
        self.monotonic = 1000.0
        self.wall = NOW

    def __call__(self) -> float:
        return self.monotonic

    def advance(self, seconds: float, *, wall: float | None = None) -> None:
        self.monotonic += seconds
        self.wall += timedelta(seconds=seconds if wall is None else wall)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize(
    ("keep_days", "dates"),
    [(30, ["2026-02-28"]), (29, ["2026-02-28", "2026-03-01"]), (31, [])],
)
def test_whole_dates_expire(keep_days: int, dates: Sequence[str]) -> None:
    partitions = [OLD, OLDER, Partition("_date", None), Partition(), Partition("_date", "2026-03-31")]
    assert [each.value for each in expired(partitions, keep_days, NOW)] == dates


def test_a_month_expires_after_its_last_day() -> None:
    month = Partition("_month", "2026-02-01")
    assert expired([month], 30, NOW) == [month]
    assert expired([month], 31, NOW) == []


def test_a_date_is_confirmed_by_a_second_observation(clock: Clock) -> None:
    confirmation = Confirmation(3600, clock)
    assert confirmation.confirmed("flights", [OLD], 30, clock.wall) == []
    clock.advance(3599)
    assert confirmation.confirmed("flights", [OLD], 30, clock.wall) == []
    clock.advance(1)
    assert confirmation.confirmed("flights", [OLD, OLDER], 30, clock.wall) == [OLD]
    assert confirmation.confirmed("trains", [OLD], 30, clock.wall) == []


def test_another_keep_days_starts_again(clock: Clock) -> None:
    confirmation = Confirmation(3600, clock)
    confirmation.confirmed("flights", [OLD], 3, clock.wall)
    clock.advance(3600)
    assert confirmation.confirmed("flights", [OLD], 30, clock.wall) == []
    clock.advance(3600)
    assert confirmation.confirmed("flights", [OLD], 30, clock.wall) == [OLD]


def test_a_clock_that_was_set_starts_again(clock: Clock) -> None:
    confirmation = Confirmation(3600, clock)
    confirmation.confirmed("flights", [OLD], 30, clock.wall)
    clock.advance(3600, wall=-400 * 86_400)
    assert confirmation.confirmed("flights", [OLD], 30, clock.wall) == []


def test_a_date_that_was_not_expired_in_between_starts_again(clock: Clock) -> None:
    confirmation = Confirmation(3600, clock)
    confirmation.confirmed("flights", [OLD], 30, clock.wall)
    confirmation.confirmed("flights", [], 30, clock.wall)
    clock.advance(3600)
    assert confirmation.confirmed("flights", [OLD], 30, clock.wall) == []


def test_dropped_rows_are_counted_in_the_commit(tmp_path: Path) -> None:
    uri, days = str(tmp_path), [date(2026, 2, 28), date(2026, 3, 1)]
    small_files(uri, 3, days=days)
    append(uri, 1, 10, days)
    table = DeltaTable(uri)
    assert drop(table, OLDER) == 20
    assert receipts(tmp_path) == [*((0, n) for n in range(1, 30, 2)), *((1, n) for n in range(1, 10, 2))]
    assert drop(table, OLDER) == 0
    append(uri, 1, 20, days)
    assert drop(DeltaTable(uri), OLDER) == 5
    table = DeltaTable(uri)
    assert [table.transaction_version(dropped_id(TOPIC, p)) for p in (0, 1)] == [15, 10]
    assert table.transaction_version(DROPPED_BEFORE) == (date(2026, 3, 1) - date(1970, 1, 1)).days


def test_rows_that_arrive_during_a_drop_stay(tmp_path: Path) -> None:
    uri, days = str(tmp_path), [date(2026, 2, 28), date(2026, 3, 1)]
    small_files(uri, 1, days=days)
    stale, other = DeltaTable(uri), DeltaTable(uri)
    append(uri, 1, 10, days)
    assert drop(other, OLD) == 5  # refused once, then without the new file
    assert drop(stale, OLDER) == 5
    assert receipts(tmp_path) == [(1, n) for n in range(10)]
    table = DeltaTable(uri)
    assert [table.transaction_version(dropped_id(TOPIC, p)) for p in (0, 1)] == [10, None]
