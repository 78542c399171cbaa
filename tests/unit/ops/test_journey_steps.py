"""Outcomes of an event, derived without guesses from the answers of Kafka and the databases."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from services.ops.findings import Source, Table
from services.ops.journey.database_facts_sql import DatabaseFacts, InWaiting, LedgerRow
from services.ops.journey.evidence import Evidence
from services.ops.journey.kafka_side import OnKafka
from services.ops.journey.parked_facts_sql import ParkedFacts, StoredParked
from services.ops.journey.steps import passage_of
from services.ops.journey.subject import Receipt
from services.ops.journey.table_rows_sql import EventRow, Layout, TableAnswers
from services.ops.journey.timeline import Kind, Step
from services.ops.kafka_logs import LogRecord
from services.ops.settled.reader import SettledReader
from shared import wire
from tests.fixtures.writer import event

SOURCE = Source("events.order_placed", 0)
RECEIPT = Receipt(SOURCE, 5)
LANDING = Table("a", "events", "order_placed")
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LAYOUT = Layout(True, True, True, {"_id": "text", "_topic": "text", "_partition": "int4", "_offset": "int8"})
ROUTES = {
    "default_database": "a",
    "event_routes": [
        {"event_name": "order_placed", "database": "a"},
        {"event_name": "order_placed", "database": "b", "schema": "public", "table": "orders"},
    ],
}


def settled(*entries: tuple[str, Any]) -> SettledReader:
    reader = SettledReader()
    for key, value in entries:
        reader.apply(key.encode(), orjson.dumps(value))
    return reader


def record(value: bytes = b"", headers: Mapping[str, bytes] | None = None) -> LogRecord:
    given = {wire.HEADER_CONTEXT: wire.CONTEXT_BYTES, wire.HEADER_RECEIVED_AT: b"2026-01-02T03:04:05+00:00"}
    given |= {wire.HEADER_PRODUCER: b"shop"}
    return LogRecord(
        source=SOURCE,
        offset=5,
        timestamp=0,
        key=b"o-1",
        value=value or event("o-1"),
        headers=given if headers is None else headers,
        header_count=len(given),
    )


def evidence(**given: Any) -> Evidence:
    """Return the evidence about a settled event of two databases."""
    facts = DatabaseFacts(ledger=[LedgerRow("t", 10, "d")])
    usual = {
        "receipt": RECEIPT,
        "databases": ["a", "b"],
        "settled": settled(("routes/d", ROUTES)),
        "kafka": OnKafka(topic_id="t", span=(0, 20), record=record(), committed=10),
        "facts": {"a": facts, "b": facts},
        "rows": {"a": TableAnswers({LANDING: LAYOUT}), "b": TableAnswers()},
    }
    return Evidence(**(usual | given))


def outcomes(of: Evidence) -> dict[str | None, Step]:
    return {step.destination: step for step in passage_of(of).outcomes}


def row(id_: str, offset: int) -> EventRow:
    return EventRow(LANDING, Receipt(SOURCE, offset), id_, "order_placed", AT, "SELECT 1")


def test_a_row_with_its_receipt_has_landed_and_another_is_a_duplicate() -> None:
    for offset, kind in ((5, Kind.LANDED), (3, Kind.DUPLICATE)):
        found = evidence(rows={"a": TableAnswers({LANDING: LAYOUT}, [row("o-1", offset)])})
        assert outcomes(found)["a.events.order_placed"].kind is kind


def test_a_row_of_another_event_with_its_receipt_is_of_another_generation() -> None:
    found = evidence(rows={"a": TableAnswers({LANDING: LAYOUT}, [row("other", 5)])})
    assert "another generation" in outcomes(found)["a.events.order_placed"].text


def test_the_sender_is_the_key_or_a_client_past_the_gateway() -> None:
    accepted, *_ = passage_of(evidence()).steps
    assert (accepted.text, accepted.at) == ("was accepted by the gateway with the key shop", AT)
    bare = {wire.HEADER_CONTEXT: wire.CONTEXT_BYTES}
    past = replace(evidence().kafka, record=record(headers=bare))
    assert "past the gateway" in passage_of(evidence(kafka=past)).steps[0].text


def test_a_table_without_receipts_and_ids_cannot_tell() -> None:
    table = Table("b", "public", "orders")
    passage = passage_of(evidence(rows={"b": TableAnswers({table: Layout(True, True)})}))
    [step] = [each for each in passage.outcomes if each.destination == str(table)]
    assert step.kind is Kind.UNKNOWN
    assert any("landed and duplicate cannot be distinguished" in text for text in passage.unknown)


@pytest.mark.parametrize(
    ("layout", "kind", "text"),
    [
        (Layout(), Kind.ABSENT, "the table does not exist now"),
        (Layout(True, False), Kind.UNKNOWN, "unknown outcome"),
        (LAYOUT, Kind.ABSENT, "its row was deleted or changed since"),
    ],
)
def test_missing_row_is_reported_as_absent_or_unknown_with_its_reason(
    layout: Layout, kind: Kind, text: str
) -> None:
    step = outcomes(evidence(rows={"a": TableAnswers({LANDING: layout})}))["a.events.order_placed"]
    assert step.kind is kind
    assert text in step.text


def test_a_locked_table_is_unknown() -> None:
    answers = TableAnswers({LANDING: LAYOUT}, failures={LANDING: "55P03"})
    passage = passage_of(evidence(rows={"a": answers}))
    assert any("SQLSTATE 55P03" in text for text in passage.unknown)
    assert {step.kind for step in passage.outcomes} == {Kind.UNKNOWN}


def test_a_database_that_is_behind_has_its_event_diverted() -> None:
    behind = DatabaseFacts(ledger=[LedgerRow("t", 4, None)], halt=("the log went back", AT))
    found = evidence(
        facts={"a": evidence().facts["a"], "b": behind}, rows={"a": TableAnswers({LANDING: LAYOUT})}
    )
    step = outcomes(found)["b.public.orders"]
    assert step.kind is Kind.WAITING
    assert "on onramp.system_errors: the database b is halted since 2026-01-02 03:04:05 UTC" in step.text
    assert step.ends == "an operator resolves the halt: `onramp databases list`"


def test_event_that_the_writer_has_not_reached_is_not_settled_and_waits_on_kafka() -> None:
    facts = DatabaseFacts(ledger=[LedgerRow("t", 3, None)])
    kafka = OnKafka(topic_id="t", span=(0, 20), record=record(), committed=3)
    [step] = outcomes(evidence(facts={"a": facts, "b": facts}, kafka=kafka)).values()
    assert (step.kind, step.facts) == (Kind.NOT_SETTLED, {"records_before": 2})
    halt = {"id": "1", "reason": "the log was cut.", "since": "yesterday"}
    reader = settled(("routes/d", ROUTES), (f"halt/{SOURCE}", halt))
    [step] = outcomes(evidence(facts={"a": facts, "b": facts}, kafka=kafka, settled=reader)).values()
    assert "halted since yesterday: the log was cut" in step.text
    assert step.ends == "an operator answers the halt: `onramp partitions list`"


def test_a_held_event_says_which_hold_ends() -> None:
    held = InWaiting("t", "events.order_placed", "order_placed", "paused", AT, "type", "paused", None, AT)
    facts = replace(evidence().facts["a"], waiting=[held])
    found = evidence(facts={"a": facts, "b": evidence().facts["b"]})
    step = outcomes(found)["a.events.order_placed"]
    assert (step.kind, step.at) == (Kind.WAITING, AT)
    assert step.ends == "an operator resumes the type: `onramp types resume order_placed`"


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"databases": ["a"], "facts": {}}, "the database b is not configured here"),
        ({"failures": {"b": "database b does not answer"}, "facts": {}}, "database b does not answer"),
        (
            {"settled": settled(("routes/d", ROUTES), ("retired/b", {"upto": {}}))},
            "the database b is retired",
        ),
    ],
)
def test_a_database_that_cannot_be_asked_is_named(more: dict[str, Any], text: str) -> None:
    facts = {"a": evidence().facts["a"]} if "facts" in more else evidence().facts
    passage = passage_of(evidence(**(more | {"facts": facts})))
    [step] = [each for each in passage.outcomes if each.destination == "b.public.orders"]
    assert step.kind is Kind.UNKNOWN
    assert any(text in each for each in passage.unknown), passage.unknown


def test_facts_of_another_generation_are_none_of_this_event() -> None:
    other = DatabaseFacts(ledger=[LedgerRow("old", 10, "d")])
    kafka = OnKafka(topic_id="t", span=(0, 20), record=record(), committed=0)
    [step] = outcomes(evidence(facts={"a": other, "b": other}, kafka=kafka)).values()
    assert step.kind is Kind.NOT_SETTLED


def test_a_packet_goes_to_the_tables_that_it_names() -> None:
    named = [{"type": "postgres", "vanity": "b", "schema": "public", "table": "orders"}]
    value = orjson.dumps({"pipeline_context": {"destinations": named}, "data": {}})
    kafka = replace(evidence().kafka, record=record(value))
    assert set(outcomes(evidence(kafka=kafka))) == {"b.public.orders"}


def test_a_parked_event_is_known_while_kafka_and_its_database_are_down() -> None:
    reason = {"code": "database_constraint", "detail": "it is refused"}
    stored = StoredParked("t", RECEIPT, "a.events.order_placed", 7, 1, "o-1", "order_placed", AT, reason,
                          "open", AT, None, None)  # fmt: skip
    passage = passage_of(
        evidence(
            kafka=OnKafka(problem="Kafka cannot be read."),
            facts={},
            rows={},
            failures={"a": "database a does not answer"},
            parked=ParkedFacts([stored]),
        )
    )
    assert passage.is_known
    assert (Kind.PARKED, "a.events.order_placed") in {(s.kind, s.destination) for s in passage.outcomes}
    assert any("whether Kafka has the record is unknown" in text for text in passage.unknown)
