"""Halts, words and lives, as entries of `onramp.settled` say them."""

import msgspec

from services.writer.model.offsets import Partition
from services.writer.partitions.partition_halts import ACCEPT, HaltRecord, OperatorDecision
from services.writer.partitions.plan_log import Settled

P = Partition("events.order_placed", 0)
TOPIC_ID = "a-topic"


def _take(settled: Settled, entries: list[tuple[str, bytes]]) -> int:
    for key, value in entries:
        assert settled.read(key.encode(), value)
    return len(entries)


def _say(settled: Settled, halt: str, how: str = ACCEPT) -> None:
    _take(
        settled,
        [(f"word/{P.topic}/{P.number}", msgspec.json.encode(OperatorDecision(halt, how, "somebody")))],
    )


def test_a_halt_is_said_once_and_another_reason_is_another_halt() -> None:
    settled = Settled()
    assert _take(settled, settled.lines.halted(P, "cut at 6")) == 1
    first = settled.lines.halts[P].id
    assert _take(settled, settled.lines.halted(P, "cut at 6")) == 0
    assert _take(settled, settled.lines.halted(P, "cut at 4")) == 1
    assert settled.lines.halts[P].id != first


def test_a_word_counts_for_its_halt_alone() -> None:
    settled = Settled()
    assert settled.lines.answer(P) is None
    _take(settled, settled.lines.halted(P, "cut at 6"))
    assert settled.lines.answer(P) is None
    _say(settled, settled.lines.halts[P].id)
    assert settled.lines.answer(P) == ACCEPT
    _take(settled, settled.lines.over(P))
    assert settled.lines.answer(P) is None
    _take(settled, settled.lines.halted(P, "cut at 6"))  # the same again, later
    assert settled.lines.answer(P) is None


def test_a_word_that_is_none_is_passed_over() -> None:
    lines = Settled().lines
    lines.hear(["events.order_placed"], b"{}")
    lines.hear(["events.order_placed", "0"], b"yes")
    assert lines.words == {}


def test_a_partition_goes_on_as_the_last_writers_line() -> None:
    settled = Settled()
    assert (settled.lines.life(TOPIC_ID, 0), settled.lines.start(TOPIC_ID, 0, 3)) == (TOPIC_ID, 3)
    _take(settled, settled.lines.go_on(TOPIC_ID, 0, HaltRecord(7, "a-life", 6)))
    _take(settled, settled.lines.go_on(TOPIC_ID, 0, HaltRecord(5, "a-zombies", 4)))
    assert (settled.lines.life(TOPIC_ID, 0), settled.lines.start(TOPIC_ID, 0, 3)) == ("a-life", 6)
    _take(settled, settled.lines.go_on(TOPIC_ID, 0, HaltRecord(7, "its-next", 9)))
    assert settled.lines.life(TOPIC_ID, 0) == "its-next"
    assert settled.lines.lines[TOPIC_ID, 0].before == ("a-life",)
    assert settled.lines.life(TOPIC_ID, 1) == TOPIC_ID
