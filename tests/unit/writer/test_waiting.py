"""The index of events waiting for a database: ranges, their age, and ranges that can drain."""

import threading

import pytest

from services.writer.databases.diverted_index import DivertedIndex
from services.writer.kafka.producer import RecordMetadata
from services.writer.park.diverted_topic import EmptyRanges, RangeMarker, closing_records, parse_header
from shared.kafka_read.offsets import Generation, Partition, Range

A, B = Partition("events.a", 0), Partition("events.b", 0)
OLD, NEW = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"


class Scene:
    """An index, and a topic that grows with each marker of it."""

    def __init__(self) -> None:
        self.index = DivertedIndex()
        self.at = 0

    def divert(self, start: int, end: int, events: int = 1, *, of: Partition = A, life: str = NEW) -> None:
        self.at += events + 1
        marker = RangeMarker(
            "db", Range(life, of, start, end), count=events, first=self.at - events - 1, digest="digest"
        )
        self.index.add(marker, RecordMetadata(0, self.at - 1), since=1000.0 + self.at)

    def pass_by(self, start: int, end: int, *, digest: str = "digest") -> None:
        """A range of which nothing is for the database."""
        self.index.add(
            EmptyRanges("db", digest, (Range(NEW, A, start, end),)), RecordMetadata(0, self.at), since=0.0
        )
        self.at += 1

    def leading_empty(self) -> list[tuple[int, int]]:
        return [(m.range.start, m.range.end) for lane in self.index.leading_empty("db") for m in lane]

    def spans(self) -> list[tuple[int, int]]:
        return [(w.marker.range.start, w.marker.range.end) for w in self.index.next("db")]

    def drain(self, upto: int, *, of: Partition = A, life: str = NEW) -> None:
        self.index.remove_settled("db", {Generation(life, of): upto})


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_nothing_waits_at_first_and_nothing_waits_when_all_has_drained(scene: Scene) -> None:
    assert not scene.index.has_waiting("db")
    scene.divert(0, 5, 3)
    scene.divert(0, 7, 4, of=B)
    assert scene.index.has_waiting("db")
    assert not scene.index.has_waiting("another")
    assert scene.index.events("db") == 7
    scene.drain(5)
    assert scene.index.events("db") == 4
    scene.drain(7, of=B)
    assert not scene.index.has_waiting("db")
    assert (scene.index.events("db"), scene.index.oldest("db"), scene.index.lowest_needed()) == (0, None, {})


def test_a_range_that_is_settled_in_part_waits(scene: Scene) -> None:
    scene.divert(0, 5)
    scene.divert(5, 9)
    scene.drain(7)
    assert scene.spans() == [(5, 9)]


def test_a_repeat_replaces_what_it_covers_and_counts_once(scene: Scene) -> None:
    scene.divert(0, 5, 5)
    scene.divert(5, 8, 3)
    scene.divert(8, 9, 1)
    scene.divert(0, 8, 8)
    assert scene.index.events("db") == 9
    assert scene.spans() == [(0, 8)]  # what it left stands before it on the topic: the next pass
    scene.drain(8)
    assert scene.spans() == [(8, 9)]


def test_ranges_drain_as_far_as_they_stand_in_their_order(scene: Scene) -> None:
    scene.divert(0, 5)
    scene.divert(9, 12)
    scene.divert(5, 9)
    assert scene.spans() == [(0, 5), (5, 9)]
    assert scene.index.covers("db", Generation(NEW, A), 0, 12)


def test_range_without_markers_is_missing(scene: Scene) -> None:
    scene.divert(4, 6)
    scene.divert(6, 9)
    assert not scene.index.covers("db", Generation(NEW, A), 2, 9)
    assert scene.index.missing("db", Generation(NEW, A), 2, 9) == (2, 4)
    assert scene.index.missing("db", Generation(NEW, A), 4, 9) == (4, 6)
    assert scene.index.missing("db", Generation(NEW, B), 4, 9) == (4, 9)


def test_another_life_of_a_topic_covers_and_settles_nothing_of_this_one(scene: Scene) -> None:
    scene.divert(0, 100, life=OLD)
    assert not scene.index.covers("db", Generation(NEW, A), 0, 20)
    scene.drain(100)
    assert scene.index.generations("db") == {Generation(OLD, A)}
    scene.drain(100, life=OLD)
    assert not scene.index.has_waiting("db")


def test_the_oldest_is_an_event_and_no_empty_range(scene: Scene) -> None:
    scene.divert(0, 5, 0)
    assert scene.index.oldest("db") is None
    scene.divert(5, 6)
    scene.divert(6, 7)
    first = scene.index.oldest("db")
    assert first == 1000.0 + 3
    scene.drain(6)
    assert scene.index.oldest("db") == 1000.0 + 5


def test_nearly_drained_is_at_most_one_range_of_each_partition(scene: Scene) -> None:
    scene.divert(0, 5)
    scene.divert(0, 5, of=B)
    assert scene.index.almost_drained("db")
    scene.divert(5, 6)
    assert not scene.index.almost_drained("db")


def test_a_record_that_a_marker_of_any_database_needs_is_needed(scene: Scene) -> None:
    scene.divert(0, 5, 3)
    scene.divert(5, 9, 0)
    assert scene.index.lowest_needed() == {0: 0}
    scene.drain(5)
    assert scene.index.lowest_needed() == {0: 4}  # an empty range needs its marker alone


def test_range_added_while_another_thread_removes_settled_ranges_is_retained(scene: Scene) -> None:
    """The loop diverts for a database that a thread is claiming."""
    done = threading.Event()

    def forget() -> None:
        while not done.is_set():
            scene.drain(0)

    thread = threading.Thread(target=forget)
    thread.start()
    for at in range(2000):
        scene.divert(at, at + 1)
    done.set()
    thread.join()
    assert scene.index.events("db") == 2000


def test_an_hour_of_diverted_batches_costs_no_more_than_its_length(scene: Scene) -> None:
    """Counted in steps, not in seconds: each range is compared with few others."""
    compared = 0

    class Counting(Range):
        __slots__ = ()

        def __getattribute__(self, name: str) -> object:
            nonlocal compared
            compared += name == "end"
            return super().__getattribute__(name)

    for at in range(2000):
        marker = RangeMarker("db", Counting(NEW, A, at, at + 1), count=1, first=at, digest="digest")
        scene.index.add(marker, RecordMetadata(0, at), 0.0)
    for at in range(2000):
        scene.drain(at + 1)
    assert compared < 20 * 2000


def test_adjacent_empty_ranges_of_many_batches_merge_into_a_single_range(scene: Scene) -> None:
    for at in range(1000):
        scene.pass_by(at, at + 1)
    assert scene.leading_empty() == [(0, 1000)]
    assert scene.index.lowest_needed() == {0: 0}  # all that said so must be there for the next writer
    scene.drain(999)
    assert scene.leading_empty() == [(0, 1000)]
    scene.drain(1000)
    assert not scene.index.has_waiting("db")


def test_empty_ranges_with_different_routes_are_not_merged(scene: Scene) -> None:
    scene.pass_by(0, 3)
    scene.pass_by(3, 5, digest="later")
    scene.pass_by(5, 6, digest="later")
    assert scene.leading_empty() == [(0, 3), (3, 6)]
    assert scene.index.covers("db", Generation(NEW, A), 0, 6)
    assert not scene.index.covers("db", Generation(NEW, A), 0, 7)


def test_empty_range_waits_for_the_ranges_before_it(scene: Scene) -> None:
    scene.pass_by(0, 3)
    scene.divert(3, 5, 2)
    scene.pass_by(5, 9)
    assert (scene.leading_empty(), scene.spans()) == ([(0, 3)], [(3, 5)])
    scene.drain(3)
    assert (scene.leading_empty(), scene.spans()) == ([], [(3, 5)])
    scene.drain(5)
    assert (scene.leading_empty(), scene.spans()) == ([(5, 9)], [])


@pytest.mark.parametrize("first", ["marker", "empty"])
def test_a_marker_has_the_last_word_about_a_range_whichever_was_read_first(scene: Scene, first: str) -> None:
    """They have different keys on the topic, so their order is unknown."""
    if first == "empty":
        scene.pass_by(0, 20)
    scene.divert(10, 15, 5)
    if first == "marker":
        scene.pass_by(0, 20)
    assert (scene.leading_empty(), scene.spans()) == ([(0, 10)], [(10, 15)])
    scene.drain(15)
    assert scene.leading_empty() == [(0, 20)]
    scene.drain(20)
    assert not scene.index.has_waiting("db")


def test_repeated_empty_range_changes_nothing(scene: Scene) -> None:
    for span in ((0, 5), (5, 9), (5, 9), (5, 7), (7, 12)):
        scene.pass_by(*span)
    assert scene.leading_empty() == [(0, 12)]
    assert scene.index.highest_known(Generation(NEW, A)) == 12


def test_nothing_is_missing_where_there_is_nothing(scene: Scene) -> None:
    """A halted database without a stored decision has nothing to replay."""
    scene.pass_by(4, 9)
    start, end = scene.index.missing("db", Generation(NEW, A), 4, 9)
    assert start == end
    assert scene.index.missing("db", Generation(NEW, A), 2, 9) == (2, 4)
    scene.divert(9, 10)
    assert scene.index.missing("db", Generation(NEW, A), 4, 10) == (9, 10)


def test_the_records_of_what_has_no_events_are_read_as_they_were_written() -> None:
    ranges = [Range(NEW, Partition(f"events.e{n % 700}", n // 700), n, n + 3) for n in range(1400)]
    markers = [RangeMarker("db", r, count=0, first=-1, digest="digest") for r in ranges]
    busy = RangeMarker("db", Range(OLD, A, 0, 9), count=2, first=17, digest="digest")
    found = [parse_header(dict(each.as_record().headers)) for each in closing_records([busy, *markers])]
    assert found[0] == busy
    assert len(found) == 3  # a record has a bound
    assert {r for each in found[1:] for r in each.ranges} == set(ranges)
