"""The lake in a statement: rows of a period, and the comparison with landing tables at the same offsets."""

from datetime import UTC, datetime

import pytest

from services.ops.statement.balance import DestinationLine, TopicLine
from services.ops.statement.lake import LakePartition, LakeTableLine, LakeTablesReading, lines_of
from services.ops.statement.lake_comparison import compare

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LANDING = "main.events.flight"


def reading(next_: int, landed: int, *, first: int | None = 0, topic_id: str = "a") -> LakeTablesReading:
    partition = LakePartition("flights", "events.flight", 0, topic_id, first, next_, landed)
    return LakeTablesReading(NOW, [partition], [("flights", "events.flight", 3)])


def line(last: LakeTablesReading, first: LakeTablesReading | None = None) -> LakeTableLine:
    (found,) = lines_of(first, last, lambda _: True, lambda _: "flight", is_live=True)
    return found


def landing(upto: int, *, since: int = 0, **outcomes: int) -> TopicLine:
    destination = DestinationLine(LANDING, sum(outcomes.values()), outcomes)
    offsets = [("a", 0, since, upto), ("a", 1, 7, 7)]
    return TopicLine("events.flight", "main", None, None, None, 0, 0, [destination], offsets)


def test_a_reading_is_stored_and_read_alike() -> None:
    assert LakeTablesReading.from_bytes(reading(9, 8).as_bytes()) == reading(9, 8)


def test_a_table_with_the_rows_of_its_landing_table_adds_up() -> None:
    found = line(reading(10, 9))
    compare(found, [landing(10, landed=7, duplicate=1, parked=2)])
    assert tuple(found.compared) == (LANDING,)
    assert (found.adds_up, found.landed, found.lag) == (True, 9, 3)


@pytest.mark.parametrize(("landed", "expected"), [(6, "7 to 9"), (10, "7 to 9")])
def test_other_counts_at_the_same_offsets_are_a_difference(landed: int, expected: str) -> None:
    found = line(reading(10, landed))
    compare(found, [landing(10, landed=7, waiting=2)])
    assert found.difference == (
        f"events.flight: lake.flights has {landed} rows, and {LANDING} has {expected} events at the "
        "same offsets"
    )


@pytest.mark.parametrize(
    ("last", "others"),
    [
        (reading(10, 1), landing(11, landed=9)),
        (reading(10, 1, first=None), landing(10, landed=9)),
        (reading(10, 1, first=2), landing(10, landed=9)),
        (reading(10, 1, topic_id="b"), landing(10, landed=9)),
    ],
)
def test_counts_of_other_offsets_are_not_compared(last: LakeTablesReading, others: TopicLine) -> None:
    found = line(last)
    compare(found, [others])
    assert (tuple(found.compared), found.adds_up) == ((), True)


def test_more_rows_than_offsets_are_a_difference() -> None:
    found = line(reading(10, 11, first=None))
    compare(found, [])
    assert "11 rows of 10 offsets" in found.difference


def test_a_period_has_the_growth_between_its_readings() -> None:
    found = line(reading(10, 9), reading(4, 4))
    compare(found, [landing(10, since=4, landed=5)])
    assert (found.landed, found.partitions[0].first, tuple(found.compared)) == (5, 4, (LANDING,))
    assert found.adds_up


def test_a_count_that_goes_back_is_not_evaluated() -> None:
    with pytest.raises(ValueError, match="lower than at the period's start"):
        line(reading(9, 9), reading(10, 9))
