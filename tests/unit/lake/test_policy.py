"""Which files are rewritten: many small ones, and once more after the partition's dates."""

from datetime import UTC, date, datetime

import pytest

from services.lake.compaction.policy import Policy, choose, end_of
from shared.lake.delta_files import DataFile, Partition

MIB = 1024 * 1024
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TODAY, YESTERDAY = Partition("_date", "2026-03-01"), Partition("_date", "2026-02-28")
NULL = Partition("_date", None)
POLICY = Policy()


def files(count: int, mib: float = 1, *, prefix: str = "part-", hours_ago: float = 2) -> list[DataFile]:
    added = int((NOW.timestamp() - hours_ago * 3600) * 1000)
    return [DataFile(f"_date=x/{prefix}{n}-{mib}.parquet", int(mib * MIB), 10, added) for n in range(count)]


def test_sixteen_small_files_of_a_day_are_rewritten_without_the_larger_ones() -> None:
    small, larger = files(16), files(3, 40, prefix="compacted-")
    chosen = choose(POLICY, TODAY, [*larger, *small], NOW)
    assert chosen is not None
    assert (list(chosen.files), chosen.closes) == (small, False)


def test_fifteen_small_files_of_today_and_of_the_null_date_stay() -> None:
    assert choose(POLICY, TODAY, files(15), NOW) is None
    assert choose(POLICY, NULL, files(15), NOW) is None
    assert choose(POLICY, NULL, files(16), NOW) is not None


def test_an_ended_date_is_rewritten_once() -> None:
    rest = [*files(1, 100), *files(2)]
    chosen = choose(POLICY, YESTERDAY, [*files(2, 130), *rest], NOW)
    assert chosen is not None
    assert (list(chosen.files), chosen.closes) == (rest, True)
    closed = [*files(1, 40, prefix="closed-"), *files(15, hours_ago=20)]
    assert choose(POLICY, YESTERDAY, closed, NOW) is None


def test_late_events_of_a_closed_date_are_rewritten_when_they_are_sixteen_files() -> None:
    chosen = choose(POLICY, YESTERDAY, [*files(1, 40, prefix="closed-"), *files(16)], NOW)
    assert chosen is not None
    assert (len(chosen.files), chosen.closes) == (17, True)


def test_a_date_that_ended_is_not_closed_while_events_of_it_arrive() -> None:
    assert choose(POLICY, YESTERDAY, [*files(2), *files(1, hours_ago=0.5)], NOW) is None


def test_single_file_is_not_rewritten() -> None:
    assert choose(POLICY, YESTERDAY, files(1), NOW) is None


def test_a_rewrite_is_bounded_and_an_incomplete_one_does_not_close() -> None:
    policy = Policy(max_rewrite_bytes=20 * MIB)
    chosen = choose(policy, YESTERDAY, files(50), NOW)
    assert chosen is not None
    assert (len(chosen.files), chosen.closes) == (20, False)
    chosen = choose(Policy(max_rewrite_files=17), YESTERDAY, files(50), NOW)
    assert chosen is not None
    assert len(chosen.files) == 17


@pytest.mark.parametrize(
    ("column", "value", "end"),
    [
        ("_date", "2026-02-28", date(2026, 3, 1)),
        ("_month", "2026-12-01", date(2027, 1, 1)),
        ("_month", "2026-02-01", date(2026, 3, 1)),
        ("_date", None, None),
        (None, None, None),
        ("_date", "9999-12-31", None),
        ("_month", "9999-12-01", None),
        ("_date", "other", None),
        ("region", "2026-02-28", None),
    ],
)
def test_the_end_of_a_partition(column: str | None, value: str | None, end: date | None) -> None:
    assert end_of(Partition(column, value)) == end
