"""Transforms in a statement: matching totals, differences, and counters that go back."""

from datetime import UTC, datetime

import pytest

from services.ops.statement.transforms import PartitionReading, TransformLine, TransformsReading, lines_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def reading(next_: int = 10, *, first: int = 0, topic_id: str = "a", **counts: int) -> TransformsReading:
    every = {"emitted": 0, "dropped": 0, "filtered": 0, "parked": 0, "outputs": 0, "skipped": 0, **counts}
    return TransformsReading(NOW, [PartitionReading("delays", "t", 0, topic_id, first, next_, every)])


def line(last: TransformsReading, first: TransformsReading | None = None) -> TransformLine:
    (found,) = lines_of(first, last, lambda _: True, is_live=True)
    return found


def test_a_reading_is_stored_and_read_alike() -> None:
    assert TransformsReading.from_bytes(reading(emitted=3).as_bytes()) == reading(emitted=3)


def test_markers_are_offsets_without_a_record_and_no_difference() -> None:
    found = line(reading(10, emitted=3, outputs=4, dropped=4, skipped=1))
    assert (found.read, found.without_record, found.adds_up) == (7, 2, True)


@pytest.mark.parametrize(
    "counts", [{"dropped": 11}, {"emitted": 3, "outputs": 2}, {"dropped": 8, "skipped": 3}]
)
def test_more_outcomes_than_offsets_or_fewer_outputs_than_events_are_a_difference(
    counts: dict[str, int],
) -> None:
    found = line(reading(10, **counts))
    assert not found.adds_up
    assert "10 offsets have" in found.difference or "7 offsets have 8 outcomes" in found.difference


def test_a_recreated_topic_counts_from_its_beginning() -> None:
    first, last = reading(10, dropped=10), reading(4, topic_id="b", dropped=4)
    last.partitions += first.partitions
    assert line(last, first).read == 4


def test_a_count_that_goes_back_is_not_evaluated() -> None:
    with pytest.raises(ValueError, match="lower than at the period's start"):
        line(reading(9, dropped=9), reading(10, dropped=10))
