"""Batches are bounded by bytes, estimated from the last events, or from a cautious default without any."""

from services.writer.batching.byte_sizes import ByteSizes, range_to_repeat
from services.writer.settle.work_order import TaskReport
from shared.kafka_read.offsets import Partition, Range

BIG, SMALL = Partition("events.big", 0), Partition("events.small", 0)
MB = 1_000_000


def _read(sizes: ByteSizes, p: Partition, events: int, each: int) -> None:
    sizes.count(
        [TaskReport(*p, read=events, size=events * each), TaskReport(*p, database="onramp", rows=events)]
    )


def test_events_of_100_kb_make_a_short_range() -> None:
    sizes = ByteSizes(64 * MB)
    _read(sizes, BIG, 10, 100_000)
    assert sizes.bound({BIG: (500, 20_500)}) == {BIG: (500, 1_140)}


def test_range_of_small_events_stays_whole_in_a_batch_with_large_events() -> None:
    sizes = ByteSizes(64 * MB)
    _read(sizes, BIG, 10, 100_000)
    _read(sizes, SMALL, 10, 250)
    found = sizes.bound({BIG: (0, 20_000), SMALL: (0, 20_000)})
    assert found == {BIG: (0, 590), SMALL: (0, 20_000)}


def test_a_batch_that_is_small_enough_stays_as_it_is() -> None:
    sizes = ByteSizes(64 * MB)
    _read(sizes, SMALL, 10, 250)
    assert sizes.bound({SMALL: (7, 120_000)}) == {SMALL: (7, 120_000)}


def test_a_topic_of_which_nothing_was_read_is_begun_with_caution() -> None:
    [(start, end)] = ByteSizes(64 << 20).bound({BIG: (0, 120_000)}).values()
    assert (start, end) == (0, 1024)


def test_another_partition_of_the_topic_is_known_by_its_neighbour() -> None:
    sizes = ByteSizes(64 * MB)
    _read(sizes, SMALL, 10, 250)
    other = SMALL._replace(number=1)
    assert sizes.bound({other: (0, 100_000)}) == {other: (0, 100_000)}


def test_larger_events_are_believed_at_once_and_smaller_ones_less_quickly() -> None:
    sizes = ByteSizes(MB)
    _read(sizes, BIG, 10, 1_000)
    _read(sizes, BIG, 10, 100_000)
    assert sizes.bound({BIG: (0, 1_000)}) == {BIG: (0, 10)}
    _read(sizes, BIG, 10, 1_000)
    assert sizes.bound({BIG: (0, 1_000)}) == {BIG: (0, 11)}
    for _ in range(50):
        _read(sizes, BIG, 10, 1_000)
    assert sizes.bound({BIG: (0, 1_000)}) == {BIG: (0, 1_000)}


def test_a_hot_partition_is_not_forgotten_among_those_of_small_events() -> None:
    """Its lines are in one report with the others, and later reports have only the others."""
    sizes, partitions = ByteSizes(64 * MB), [BIG._replace(number=n) for n in range(50)]
    sizes.count([TaskReport(*p, read=10, size=10 * (250 if p.number else MB)) for p in partitions])
    assert sizes.bound({BIG: (0, 20_000)}) == {BIG: (0, 64)}
    for _ in range(50):
        sizes.count([TaskReport(*p, read=10, size=10 * 250) for p in partitions[1:]])
    assert sizes.bound({BIG: (0, 20_000)}) == {BIG: (0, 64)}
    assert sizes.bound(dict.fromkeys(partitions[1:], (0, 5000))) == dict.fromkeys(partitions[1:], (0, 5000))


def test_tasks_that_share_a_partition_are_one_report_of_it() -> None:
    sizes = ByteSizes(64 * MB)
    sizes.count(
        [TaskReport(*BIG, read=10, size=10 * MB), *(TaskReport(*BIG, read=10, size=2_500) for _ in range(50))]
    )
    assert sizes.bound({BIG: (0, 20_000)}) == {BIG: (0, 64)}


def test_unread_partition_is_sized_by_the_largest_events_of_its_topic() -> None:
    sizes = ByteSizes(64 * MB)
    _read(sizes, BIG, 10, MB)
    _read(sizes, BIG._replace(number=1), 10, 250)
    other = BIG._replace(number=2)
    assert sizes.bound({other: (0, 20_000)}) == {other: (0, 64)}


def test_each_partition_contributes_an_event_however_large_the_event_is() -> None:
    sizes = ByteSizes(MB)
    _read(sizes, BIG, 1, 5 * MB)
    spans = {BIG: (0, 10), BIG._replace(number=1): (3, 10)}
    assert sizes.bound(spans) == {BIG: (0, 1), BIG._replace(number=1): (3, 4)}


def test_a_report_of_nothing_teaches_nothing() -> None:
    sizes = ByteSizes(MB)
    sizes.count([TaskReport(*BIG, failure="internal")])
    [(_, end)] = sizes.bound({BIG: (0, 10_000)}).values()
    assert end == 15


def _range(start: int, end: int) -> Range:
    return Range("id", BIG, start, end)


def test_range_begun_twice_and_not_finished_is_halved() -> None:
    first, second = _range(7, 107), _range(7, 107)
    assert range_to_repeat(7, [first]) == first
    assert range_to_repeat(7, [second, first]) == _range(7, 57)
    assert range_to_repeat(7, [_range(7, 57), second, first]) == _range(7, 32)
    assert range_to_repeat(7, [_range(7, 8), first]) == _range(7, 8)


def test_rest_of_a_partly_settled_plan_is_repeated_whole() -> None:
    assert range_to_repeat(32, [_range(7, 57), _range(7, 107)]) == _range(7, 57)
    assert range_to_repeat(57, [_range(57, 107), _range(7, 107)]) == _range(57, 107)
