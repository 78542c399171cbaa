"""More partitions than readers: each comes, again and again, and few never wait for a turn."""

from collections import Counter

from services.writer.ranges import Partition
from services.writer.turns import Turns

BACKLOG = {Partition("events.e", n): (10, 110) for n in range(7)}


def test_as_many_as_there_are_readers_all_come() -> None:
    assert Turns(0, most=7).next(BACKLOG) == BACKLOG


def test_each_comes_in_its_turn_however_the_others_grow() -> None:
    turns, chosen = Turns(0, most=3), Counter[Partition]()
    for _ in range(7):
        chosen.update(turns.next(BACKLOG).keys())
    assert set(chosen.values()) == {3}


def test_one_that_is_new_comes_next() -> None:
    turns = Turns(0, most=3)
    for _ in range(5):
        turns.next(BACKLOG)
    new = Partition("events.new", 0)
    assert new in turns.next(BACKLOG | {new: (0, 1)})


def test_what_has_nothing_takes_no_turn() -> None:
    nothing = {Partition("events.a", n): (5, 5) for n in range(9)}
    assert Turns(0, most=7).next(BACKLOG | nothing) == BACKLOG


def test_what_the_driver_reads_by_itself_comes_whole() -> None:
    assert Turns(700, most=3).next(BACKLOG) == BACKLOG
    assert len(Turns(699, most=3).next(BACKLOG)) == 3
