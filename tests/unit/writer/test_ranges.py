"""A batch is shared fairly among the partitions that have a backlog."""

from hypothesis import given
from hypothesis import strategies as st

from shared.kafka_read.offsets import Partition, Range, share, total

_backlogs = st.dictionaries(
    st.builds(Partition, st.sampled_from(["events.a", "events.b", "events.c"]), st.integers(0, 20)),
    st.tuples(st.integers(0, 1 << 40), st.integers(0, 10_000)).map(lambda t: (t[0], t[0] + t[1])),
    max_size=30,
)
_limits = st.integers(1, 100_000)


@given(_backlogs, _limits)
def test_a_batch_is_never_larger_than_its_limit(backlog: dict, limit: int) -> None:
    assert sum(end - start for start, end in share(backlog, limit).values()) <= limit


@given(_backlogs, _limits)
def test_every_range_is_a_head_of_its_backlog_and_none_is_empty(backlog: dict, limit: int) -> None:
    for partition, (start, end) in share(backlog, limit).items():
        assert start == backlog[partition][0]
        assert start < end <= backlog[partition][1]


@given(_backlogs, _limits)
def test_the_whole_limit_is_used_while_something_waits(backlog: dict, limit: int) -> None:
    taken = sum(end - start for start, end in share(backlog, limit).values())
    assert taken == min(limit, sum(end - start for start, end in backlog.values()))


@given(_backlogs, _limits)
def test_partition_with_a_smaller_share_than_another_gets_its_whole_backlog(
    backlog: dict, limit: int
) -> None:
    taken = {p: end - start for p, (start, end) in share(backlog, limit).items()}
    most = max(taken.values(), default=0)
    for partition, (start, end) in backlog.items():
        n = taken.get(partition, 0)
        assert n == end - start or n >= most - 1


def test_small_backlogs_are_taken_whole_beside_a_hot_partition() -> None:
    hot, small = Partition("events.hot", 0), Partition("events.small", 0)
    assert share({hot: (0, 1_000_000), small: (5, 8)}, 100) == {small: (5, 8), hot: (0, 97)}


def test_a_partition_that_has_nothing_gets_no_range() -> None:
    assert share({Partition("events.a", 0): (7, 7)}, 100) == {}


def test_a_range_counts_its_offsets() -> None:
    ranges = [Range("id", Partition("events.a", n), 5, 8) for n in range(3)]
    assert total(ranges) == 9
