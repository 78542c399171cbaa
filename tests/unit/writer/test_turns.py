"""More partitions than a batch can do justice to: each comes, again and again."""

from collections import Counter

from services.writer.ranges import Partition
from services.writer.turns import Turns

BACKLOG = {Partition("events.e", n): (10, 110) for n in range(7)}
ALL = 1_000_000


def test_as_many_as_there_are_readers_all_come_whole() -> None:
    assert Turns(0, most=7).next(BACKLOG, ALL) == BACKLOG


def test_each_comes_in_its_turn_however_the_others_grow() -> None:
    turns, chosen = Turns(0, most=3), Counter[Partition]()
    for _ in range(7):
        chosen.update(turns.next(BACKLOG, ALL).keys())
    assert set(chosen.values()) == {3}


def test_one_that_is_new_comes_next() -> None:
    turns = Turns(0, most=3)
    for _ in range(5):
        turns.next(BACKLOG, ALL)
    new = Partition("events.new", 0)
    assert new in turns.next(BACKLOG | {new: (0, 1)}, ALL)


def test_what_has_nothing_takes_no_turn() -> None:
    nothing = {Partition("events.a", n): (5, 5) for n in range(9)}
    assert Turns(0, most=7).next(BACKLOG | nothing, ALL) == BACKLOG


def test_what_the_driver_reads_by_itself_comes_whole_and_no_more_of_it() -> None:
    assert Turns(700, most=3).next(BACKLOG, ALL) == BACKLOG
    few = Turns(699, most=3).next(BACKLOG, ALL)
    assert (len(few), sum(end - start for start, end in few.values())) == (6, 600)


def test_a_batch_is_of_no_more_partitions_than_are_worth_their_price() -> None:
    turns = Turns(0, worth=40)
    assert [len(turns.next(BACKLOG, 100)) for _ in range(3)] == [3, 3, 3]
    assert turns.next(BACKLOG, 100).keys() & {Partition("events.e", n) for n in (2, 3, 4)}
    assert len(Turns(0, worth=40).next(BACKLOG, 1_000)) == 7


def test_partitions_with_little_come_with_those_that_have_much() -> None:
    little = {Partition("events.a", n): (0, 2) for n in range(5)}
    assert len(Turns(0, worth=40).next(BACKLOG | little, 100)) == 8


def test_a_partition_that_is_gone_is_forgotten() -> None:
    turns = Turns(0, most=3)
    for n in range(50):
        turns.next({Partition("events.e", n): (0, 1)}, ALL)
    assert len(turns._last) == 1
