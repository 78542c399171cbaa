"""Parsing of search subjects, and the sentence that sums up a journey, without Kafka and databases."""

import asyncio
import threading
from datetime import UTC, datetime

import pytest

from services.ops.findings import Source
from services.ops.journey.answers import ask_all
from services.ops.journey.evidence import Evidence
from services.ops.journey.kafka_side import Extent, extents_as_text
from services.ops.journey.subject import Receipt, subject_of
from services.ops.journey.timeline import Journey, Kind, Passage, Step
from services.ops.settled.reader import SettledReader
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError, UserError

RECEIPT = Receipt(Source("events.order_placed", 3), 17)


@pytest.mark.parametrize("text", ["events.order_placed/3/17", " events.order_placed 3 17 "])
def test_a_receipt_is_read_with_slashes_and_as_it_is_printed(text: str) -> None:
    assert subject_of(text) == RECEIPT
    assert str(RECEIPT) == "events.order_placed/3/17"


def test_a_text_without_slashes_is_an_id() -> None:
    assert subject_of("order:1.a-b_c") == "order:1.a-b_c"


@pytest.mark.parametrize(
    "text",
    ["", " ", "a/1", "a/b/1", "a/1/-1", "a/2147483648/1", "a/1/9223372036854775808", "ä", "a\0", "x" * 129],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="neither an event's id"):
        subject_of(text)


def test_a_part_that_hangs_is_named_and_the_others_are_heard() -> None:
    released = threading.Event()

    def fail() -> int:
        raise InfrastructureError(DATABASE_UNAVAILABLE, "database c: SQLSTATE 57P03")

    async def ask() -> tuple[dict[str, int], dict[str, str]]:
        return await ask_all({"a": lambda: 1, "b": lambda: int(released.wait(60)), "c": fail}, 0.05)

    try:
        values, failures = asyncio.run(ask())
    finally:
        released.set()
    assert values == {"a": 1}
    assert failures == {"b": "b did not answer within 0.05 s", "c": "database c: SQLSTATE 57P03"}


def test_journey_sentence_names_the_outcome_at_each_destination() -> None:
    passage = Passage(
        receipt=RECEIPT,
        id="o-1",
        event_name="order_placed",
        outcomes=(
            Step(Kind.LANDED, "landed in a.b.c", destination="a.b.c"),
            Step(Kind.LANDED, "landed in a.b.d", destination="a.b.d"),
            Step(Kind.WAITING, "waits for a.b.e: the table is blocked", destination="a.b.e"),
        ),
    )
    journey = Journey(subject="o-1", passages=(passage,))
    assert journey.sentence == (
        "o-1 (order_placed) landed in a.b.c and a.b.d; it waits for a.b.e: the table is blocked."
    )
    twice = Journey(subject="o-1", passages=(passage, passage))
    assert twice.sentence.startswith(
        "o-1 (order_placed) was accepted 2 times: at events.order_placed/3/17 it"
    )


def test_an_unknown_event_has_its_reasons() -> None:
    missing = Passage(receipt=RECEIPT, unknown=("Kafka has no partition x/1.",), is_known=False)
    journey = Journey(subject="x/1/1", passages=(missing,))
    assert journey.sentence == "x/1/1 is not known: Kafka has no partition x/1."


def test_search_extent_names_partitions_that_were_searched_in_part_or_not_at_all() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    extents = {
        Source("a", 0): Extent(10, 0, at, True),
        Source("b", 0): Extent(10, 4, at, False),
        Source("c", 0): Extent(10, 10, None, False),
    }
    assert extents_as_text(extents.items()) == [
        "Kafka: b/0 was searched back to offset 4, of 2026-01-02 03:04:05 UTC.",
        "Kafka: c/0 was not searched, for lack of time.",
        "Kafka: 1 partition was searched to the oldest record.",
    ]


def test_evidence_without_any_answer_has_no_event_id_name_or_tables() -> None:
    evidence = Evidence(receipt=RECEIPT, databases=["a"], settled=SettledReader())
    assert (evidence.id, evidence.event_name, evidence.tables()) == (None, None, (set(), set()))
    assert not evidence.is_passed()
