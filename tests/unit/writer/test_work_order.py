"""How a batch's ranges are dealt among its tasks."""

from hypothesis import given
from hypothesis import strategies as st

from shared.kafka_read.offsets import Partition, Range
from shared.kafka_read.shares import shares


def _topics(*events: list[int]) -> list[Range]:
    return [
        Range(f"id-{topic}", Partition(f"events.e{topic}", n), 0, size)
        for topic, sizes in enumerate(events)
        for n, size in enumerate(sizes)
    ]


def _ranges(*events: int) -> list[Range]:
    return [Range("id", Partition("events.e", n), 0, size) for n, size in enumerate(events)]


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=40), st.integers(1, 8))
def test_each_range_is_one_tasks_and_no_task_has_much_more_than_its_part(
    events: list[int], tasks: int
) -> None:
    dealt = shares(_ranges(*events), tasks)
    assert len(dealt) == tasks
    assert sorted(p.number for share in dealt for p in share) == list(range(len(events)))
    heaviest = max(sum(events[p.number] for p in share) for share in dealt)
    # Dealing the largest first is at most a third above the best that there is.
    assert heaviest <= max(*events, sum(events) / tasks) * 4 / 3 + max(events) / 3


def test_a_hot_partition_leaves_the_others_to_the_other_task() -> None:
    assert [[p.number for p in share] for share in shares(_ranges(1, 900, 2, 3), 2)] == [[1], [3, 2, 0]]


@given(st.lists(st.lists(st.integers(1, 100), min_size=1, max_size=6), min_size=1, max_size=60))
def test_topics_that_stay_together_leave_the_shares_as_even(events: list[list[int]]) -> None:
    ranges = _topics(*events)
    sizes = {r.partition: len(r) for r in ranges}
    dealt = shares(ranges, 2)
    assert sorted(p for share in dealt for p in share) == sorted(sizes)
    heaviest, lightest = sorted((sum(sizes[p] for p in share) for share in dealt), reverse=True)
    assert heaviest - lightest <= max(*sizes.values(), sum(sizes.values()) / 16, 1)


def test_a_small_topic_is_one_tasks_and_a_large_one_is_divided() -> None:
    large = [1_000, 1_000]
    first, second = shares(_topics(large, *([10, 10, 10] for _ in range(20))), 2)
    of_small = [{p.topic for p in share} - {"events.e0"} for share in (first, second)]
    assert of_small[0] & of_small[1] == set()
    assert [sum(p.topic == "events.e0" for p in share) for share in (first, second)] == [1, 1]
