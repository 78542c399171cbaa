"""A partition with slow events gets fewer of them in a batch, for any load of the others."""

from types import SimpleNamespace
from typing import Any

from services.writer.batching.byte_sizes import ByteSizes
from services.writer.batching.event_seconds import EventSeconds
from services.writer.batching.fair_share import FairShare
from services.writer.batching.row_rates import RateLimiter
from services.writer.databases.diverted_index import DivertedIndex
from services.writer.driver.partition_tracker import PartitionTracker
from services.writer.model.next_offsets import Position
from services.writer.partitions.plan_log import PlanLog
from services.writer.settle.work_order import TaskReport
from shared.kafka_read.offsets import Partition

SLOW, USUAL = Partition("slow", 0), Partition("usual", 0)
SPANS = {SLOW: (7, 5_007), USUAL: (0, 5_000)}


def _reports(p: Partition, events: int, *seconds: float) -> list[TaskReport]:
    """The report of a task for a range, with its seconds in each database."""
    landed = [TaskReport(*p, database=f"db-{n}", seconds=each) for n, each in enumerate(seconds)]
    return [TaskReport(*p, read=events), *landed]


def _most(seconds: EventSeconds, p: Partition = SLOW) -> int:
    start, end = seconds.bound(SPANS)[p]
    assert start == SPANS[p][0]
    return end - start


def test_only_the_slow_partition_is_cut() -> None:
    seconds = EventSeconds(max_seconds=0.5)
    assert seconds.bound(SPANS) == SPANS
    seconds.count([*_reports(SLOW, 1_000, 0.5, 0.5), *_reports(USUAL, 1_000, 0.01)])
    assert (_most(seconds), _most(seconds, USUAL)) == (500, 5_000)


def test_few_events_tell_nothing_and_every_partition_goes_on() -> None:
    seconds = EventSeconds(max_seconds=0.5)
    seconds.count(_reports(SLOW, 99, 60.0))
    assert _most(seconds) == 5_000
    seconds.count(_reports(SLOW, 100, 60.0))
    assert _most(seconds) == 10


def test_partition_with_few_costly_events_gets_more_when_they_become_cheap() -> None:
    seconds = EventSeconds(max_seconds=0.5)
    seconds.count(_reports(SLOW, 1_000, 30.0))
    assert _most(seconds) == 16, "30 ms each: 100 events would take six times the share"
    seconds.count(_reports(SLOW, 15, 0.001))
    assert _most(seconds) == 16, "fewer than it may have"
    seconds.count(_reports(SLOW, 16, 0.016))
    assert _most(seconds) == 33


def test_a_partition_that_is_quick_again_has_its_whole_share_within_a_few_batches() -> None:
    seconds = EventSeconds(max_seconds=0.5)
    seconds.count(_reports(SLOW, 1_000, 1.0))
    shares = []
    for _ in range(5):
        shares.append(_most(seconds))
        seconds.count(_reports(SLOW, 500, 0.001))
    assert shares == [500, 1_000, 2_000, 4_000, 5_000]
    seconds.count(_reports(SLOW, 1_000, 1.0))
    seconds.forget(SLOW)
    assert _most(seconds) == 5_000


def test_new_ranges_are_cut_by_it() -> None:
    positions = {p: Position("a-topic", start) for p, (start, _) in SPANS.items()}
    databases: Any = SimpleNamespace(names=["main"], positions=positions, landing=list)
    nobody: Any = None
    tracker = PartitionTracker(
        cluster=nobody,
        databases=databases,
        plan_log=PlanLog(),
        group={},
        epoch=1,
        index=DivertedIndex(),
        rate_limiter=RateLimiter({}),
        fair_share=FairShare(),
        sizes=ByteSizes(1 << 40),
    )
    for p, position in positions.items():
        tracker._unfinished.adopt(p, position)
    tracker.seconds.count(_reports(SLOW, 1_000, 1.0))
    lengths = {r.partition: len(r) for r in tracker._new_ranges(SPANS, 20_000)}
    assert lengths == {SLOW: 500, USUAL: 5_000}
