"""Halts, decisions and topic generations as entries of `onramp.settled`."""

import msgspec

from services.writer.partitions.partition_halts import ACCEPT, AcceptedGeneration, OperatorDecision
from services.writer.partitions.plan_log import PlanLog
from shared.kafka_read.offsets import Partition

P = Partition("events.order_placed", 0)
TOPIC_ID = "a-topic"


def _take(plan_log: PlanLog, entries: list[tuple[str, bytes]]) -> int:
    for key, value in entries:
        assert plan_log.read(key.encode(), value)
    return len(entries)


def _say(plan_log: PlanLog, halt: str, how: str = ACCEPT) -> None:
    _take(
        plan_log,
        [(f"word/{P.topic}/{P.number}", msgspec.json.encode(OperatorDecision(halt, how, "somebody")))],
    )


def test_same_halt_is_recorded_once_and_another_reason_is_a_new_halt() -> None:
    plan_log = PlanLog()
    assert _take(plan_log, plan_log.halts.halt_entries(P, "cut at 6")) == 1
    first = plan_log.halts.halts[P].id
    assert _take(plan_log, plan_log.halts.halt_entries(P, "cut at 6")) == 0
    assert _take(plan_log, plan_log.halts.halt_entries(P, "cut at 4")) == 1
    assert plan_log.halts.halts[P].id != first


def test_a_word_counts_for_its_halt_alone() -> None:
    plan_log = PlanLog()
    assert plan_log.halts.decision(P) is None
    _take(plan_log, plan_log.halts.halt_entries(P, "cut at 6"))
    assert plan_log.halts.decision(P) is None
    _say(plan_log, plan_log.halts.halts[P].id)
    assert plan_log.halts.decision(P) == ACCEPT
    _take(plan_log, plan_log.halts.end_entries(P))
    assert plan_log.halts.decision(P) is None
    _take(plan_log, plan_log.halts.halt_entries(P, "cut at 6"))  # the same again, later
    assert plan_log.halts.decision(P) is None


def test_a_word_that_is_none_is_passed_over() -> None:
    halts = PlanLog().halts
    halts.apply_decision(["events.order_placed"], b"{}")
    halts.apply_decision(["events.order_placed", "0"], b"yes")
    assert halts.decisions == {}


def test_a_partition_goes_on_as_the_last_writers_line() -> None:
    plan_log = PlanLog()
    assert (plan_log.halts.generation_id(TOPIC_ID, 0), plan_log.halts.start_offset(TOPIC_ID, 0, 3)) == (
        TOPIC_ID,
        3,
    )
    _take(plan_log, plan_log.halts.accept_entries(TOPIC_ID, 0, AcceptedGeneration(7, "a-life", 6)))
    _take(plan_log, plan_log.halts.accept_entries(TOPIC_ID, 0, AcceptedGeneration(5, "a-zombies", 4)))
    assert (plan_log.halts.generation_id(TOPIC_ID, 0), plan_log.halts.start_offset(TOPIC_ID, 0, 3)) == (
        "a-life",
        6,
    )
    _take(plan_log, plan_log.halts.accept_entries(TOPIC_ID, 0, AcceptedGeneration(7, "its-next", 9)))
    assert plan_log.halts.generation_id(TOPIC_ID, 0) == "its-next"
    assert plan_log.halts.accepted[TOPIC_ID, 0].before == ("a-life",)
    assert plan_log.halts.generation_id(TOPIC_ID, 1) == TOPIC_ID
