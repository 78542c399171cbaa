"""More partitions than fit into a batch take turns."""

from collections import Counter

from services.writer.batching.fair_share import FairShare
from shared.kafka_read.offsets import Partition

BACKLOG = {Partition("events.e", n): (10, 1_010) for n in range(7)}
LIVE = {Partition("events.live", n): (0, 2) for n in range(5)}
ALL = 1_000_000


def test_as_many_as_a_batch_may_have_all_come_whole() -> None:
    assert FairShare(0).next(BACKLOG, ALL, max_partitions=7) == BACKLOG


def test_each_comes_in_its_turn_however_the_others_grow() -> None:
    fair_share, chosen = FairShare(0), Counter[Partition]()
    for _ in range(7):
        chosen.update(fair_share.next(BACKLOG, ALL, max_partitions=3).keys())
    assert set(chosen.values()) == {3}


def test_new_partition_is_in_the_next_batch() -> None:
    fair_share = FairShare(0)
    for _ in range(5):
        fair_share.next(BACKLOG, ALL, max_partitions=3)
    new = Partition("events.new", 0)
    assert new in fair_share.next(BACKLOG | {new: (0, 500)}, ALL, max_partitions=3)


def test_partition_without_backlog_takes_no_turn() -> None:
    nothing = {Partition("events.a", n): (5, 5) for n in range(9)}
    assert FairShare(0).next(BACKLOG | nothing, ALL, max_partitions=7) == BACKLOG


def test_few_events_come_whole_of_however_many_partitions() -> None:
    assert FairShare(7_000).next(BACKLOG, ALL, max_partitions=3) == BACKLOG
    assert len(FairShare(6_999).next(BACKLOG, ALL, max_partitions=3)) == 3


def test_a_batch_is_of_no_more_partitions_than_are_worth_their_price() -> None:
    fair_share = FairShare(0, min_events=400)
    first, second, third = (fair_share.next(BACKLOG, 1_000).keys() for _ in range(3))
    assert [len(first), len(second), len(third)] == [3, 3, 3]
    assert first | second | third == BACKLOG.keys()
    assert len(FairShare(0, min_events=400).next(BACKLOG, ALL)) == 7


def test_up_to_date_partition_is_in_every_batch_with_lagging_partitions() -> None:
    fair_share = FairShare(0, min_events=400)
    for _ in range(20):
        chosen = fair_share.next(BACKLOG | LIVE, 1_000).keys()
        assert chosen >= LIVE.keys()
        assert len(chosen) == 5 + 3


def test_many_up_to_date_partitions_leave_half_the_batch_to_lagging_partitions() -> None:
    fair_share, live = FairShare(0), {Partition("events.live", n): (0, 2) for n in range(50)}
    chosen = [fair_share.next(BACKLOG | live, ALL, max_partitions=8).keys() for _ in range(20)]
    assert {len(found & live.keys()) for found in chosen} == {4}
    assert set().union(*chosen) == BACKLOG.keys() | live.keys()


def test_lagging_partition_is_in_the_batch_however_many_events_the_others_have() -> None:
    live = {Partition("events.live", n): (0, 100) for n in range(50)}
    assert FairShare(0).next(BACKLOG | live, 1_000).keys() & BACKLOG.keys()


def test_small_backlogs_above_the_partition_limit_are_limited_by_their_total_events() -> None:
    small = {Partition("events.a", n): (0, 2) for n in range(90)}
    chosen = FairShare(100).next(small, ALL, max_partitions=10)
    assert (len(chosen), sum(end - start for start, end in chosen.values())) == (50, 100)


def test_a_partition_that_is_gone_is_forgotten() -> None:
    fair_share = FairShare(0)
    fair_share.next(BACKLOG, ALL, max_partitions=6)
    for p in BACKLOG:
        fair_share.forget(p)
    assert set(fair_share.next(BACKLOG, ALL, max_partitions=1)) == {min(BACKLOG)}
