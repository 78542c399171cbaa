"""Statement of sent and landed events, compared with an independent count made by the test."""

import asyncio
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from services.admin.api.statement import topic_of_type
from services.admin.statements import period
from services.admin.statements.hourly_readings import HourlyReadings
from services.admin.statements.period import Statements
from services.admin.store.ingester_sql import IngesterSession
from services.ops.statement.balance import Statement
from services.writer.model.routes import EventRoute, Routes
from shared import wire
from shared.kafka_security import Brokers
from shared.registry.memory import MemoryRegistry
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database, Templates
from tests.fixtures.silent_servers import black_holes
from tests.fixtures.writer import delete_topic, envelope, event, execute, make_topics
from tests.integration.admin.conftest import BAD, Stage, database_beside, topic_id_of

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def stage(own_topics: HasBootstrap, event_names: Iterator[str], migrated: Database) -> Stage:
    """A stage whose topic has the id that Kafka gave it."""
    name = next(event_names)
    topic_id = topic_id_of(own_topics.bootstrap, wire.topic_of(name))
    return Stage(own_topics.bootstrap, migrated.dsn, name, topic_id, has_topic=True).prepare()


@pytest.fixture
def control(templates: Templates) -> Iterator[str]:
    with database_beside(templates.server, templates.control) as dsn:
        yield dsn


def statements(stage: Stage, control: str, **others: str) -> Statements:
    return Statements(Brokers(stage.bootstrap), control, {"onramp": stage.dsn} | others)


def stated(
    stage: Stage, control: str, since: datetime | None = None, until: datetime | None = None, **others: str
) -> Statement:
    topic = stage.partition.topic
    return asyncio.run(statements(stage, control, **others).of(since, until, lambda name: name == topic))


def read_at(stage: Stage, control: str, time: datetime) -> None:
    """Take the reading of an hour; its time is the hour's, as if it had been taken then."""
    readings = HourlyReadings(Brokers(stage.bootstrap), control, {"onramp": stage.dsn}, days=400)
    asyncio.run(readings.read(time))
    execute(control, f"UPDATE onramp_admin.readings SET at = hour WHERE hour = '{time.isoformat()}'")  # noqa: S608


def counts(found: Statement) -> dict[str, tuple[int, ...]]:
    """By destination: records, landed, duplicate, parked, waiting."""
    return {
        each["destination"]: (
            each["records"],
            *(each[outcome] for outcome in ("landed", "duplicate", "parked", "waiting")),
        )
        for topic in found.as_dict()["topics"]
        for each in topic["destinations"]
    }


def test_every_record_has_an_outcome_against_an_independent_count(stage: Stage, control: str) -> None:
    good = [event(f"e-{n}", stage.name, n=n) for n in range(5)]
    stage.settle(*good)
    stage.settle(good[0], envelope("bad", stage.name, BAD), b"no json", event("other", "other_type"))
    stage.settle(event("filtered", stage.name), wanted=False)
    stage.hold("table", stage.table, "blocked")
    stage.settle(event("waits", stage.name))
    stage.send(event("in-flight", stage.name))
    found = stated(stage, control)
    assert counts(found) == {
        f"onramp.{stage.table}": (8, 5, 1, 1, 1),
        "onramp.events.other_type": (1, 1, 0, 0, 0),
    }
    (line,) = found.lines
    assert (line.records, line.filtered, line.unroutable) == (11, 1, 1)
    assert found.in_flight == {stage.partition.topic: 1}
    assert (found.differences, found.unevaluated) == ([], {})


def test_an_outcome_that_is_missing_is_a_difference(stage: Stage, control: str) -> None:
    stage.settle(*(event(f"e-{n}", stage.name) for n in range(3)))
    stage.execute("UPDATE onramp.totals SET events = events - 1 WHERE outcome = 'landed'")
    found = stated(stage, control)
    assert not found.adds_up
    assert found.differences == [
        f"{stage.partition.topic}: onramp.{stage.table} has 3 records and 2 outcomes"
    ]


def test_a_record_that_was_routed_nowhere_is_a_difference(stage: Stage, control: str) -> None:
    stage.settle(*(event(f"e-{n}", stage.name) for n in range(3)))
    stage.execute("UPDATE onramp.totals SET events = events - 1")
    stage.execute("UPDATE onramp.routed SET events = events - 1")
    assert stated(stage, control).differences == [
        f"{stage.partition.topic}: 3 records are neither filtered nor unroutable, and onramp has 2"
    ]


def test_event_routed_to_two_tables_adds_up_in_each_table(stage: Stage, control: str) -> None:
    stage.execute("CREATE TABLE public.copied (n int)")
    routes = Routes(
        "onramp",
        event_routes=(
            EventRoute(stage.name, "onramp"),
            EventRoute(stage.name, "onramp", "public", "copied"),
        ),
    )
    stage.settle(event("e-1", stage.name, n=1), event("e-2", stage.name, n="no"), routes=routes)
    found = stated(stage, control)
    assert counts(found) == {
        f"onramp.{stage.table}": (2, 2, 0, 0, 0),
        "onramp.public.copied": (2, 1, 0, 1, 0),
    }
    assert found.adds_up
    assert not found.unevaluated


def test_a_period_has_the_outcomes_between_its_readings(stage: Stage, control: str) -> None:
    stage.settle(event("e-1", stage.name))
    read_at(stage, control, NOON)
    stage.settle(event("e-2", stage.name), event("e-1", stage.name), event("f", stage.name), wanted=True)
    read_at(stage, control, NOON + timedelta(hours=1))
    stage.settle(event("e-3", stage.name))
    read_at(stage, control, NOON + timedelta(hours=1))  # the hour has one: the first counts
    near = timedelta(minutes=20)
    found = stated(stage, control, NOON - near, NOON + timedelta(hours=1) + near)
    assert counts(found) == {f"onramp.{stage.table}": (3, 2, 1, 0, 0)}
    assert found.times == {"onramp": (NOON, NOON + timedelta(hours=1))}
    assert (found.differences, found.unevaluated) == ([], {})


def test_a_database_that_went_back_is_named(stage: Stage, control: str) -> None:
    stage.settle(event("e-1", stage.name), event("e-2", stage.name))
    read_at(stage, control, NOON)
    stage.execute("UPDATE onramp.ledger SET next_offset = 1, upto = 1")
    found = stated(stage, control, since=NOON)
    assert [*found.unevaluated] == [f"{stage.partition.topic} in onramp"]
    assert "restored" in found.unevaluated[f"{stage.partition.topic} in onramp"]


def test_a_reading_after_the_clock_went_back_is_named(stage: Stage, control: str) -> None:
    stage.settle(event("e-1", stage.name))
    read_at(stage, control, NOON + timedelta(hours=1))
    stage.settle(event("e-2", stage.name))
    read_at(stage, control, NOON)
    found = stated(stage, control, NOON, NOON + timedelta(hours=1))
    assert [*found.unevaluated] == [f"{stage.partition.topic} in onramp"]
    assert "the clock went back" in found.unevaluated[f"{stage.partition.topic} in onramp"]
    assert (found.lines, found.differences) == ([], [])


def test_a_silent_database_is_named_within_two_seconds_and_the_others_are_evaluated(
    stage: Stage, control: str
) -> None:
    stage.settle(event("e-1", stage.name))
    with black_holes(1) as [hole]:
        found = stated(stage, control, billing=hole)
    assert counts(found) == {f"onramp.{stage.table}": (1, 1, 0, 0, 0)}
    given_up = re.search(r"no sign of life from its server in ([\d.]+) s", found.unevaluated.pop("billing"))
    assert given_up
    assert float(given_up[1]) < period._SECONDS < 2
    assert found.unevaluated == {}


def test_a_silent_kafka_is_named_and_the_databases_are_evaluated(stage: Stage, control: str) -> None:
    stage.settle(event("e-1", stage.name))
    with socket.create_server(("127.0.0.1", 0)) as hole:
        brokers = Brokers(f"127.0.0.1:{hole.getsockname()[1]}")
        silent = Statements(brokers, control, {"onramp": stage.dsn})
        found = asyncio.run(silent.of(None, None, lambda name: name == stage.partition.topic))
    assert counts(found) == {f"onramp.{stage.table}": (1, 1, 0, 0, 0)}
    assert f"Kafka at {brokers} did not answer in 1.6 s" in found.unevaluated["Kafka"]


def test_the_events_of_a_deleted_topic_are_stated_with_those_of_its_successor(
    stage: Stage, control: str
) -> None:
    topic = stage.partition.topic
    stage.settle(event("e-1", stage.name), event("e-2", stage.name))
    stage.settle(event("f", stage.name), wanted=False)
    delete_topic(stage.bootstrap, topic)
    found = stated(stage, control)
    assert counts(found) == {f"onramp.{stage.table}": (2, 2, 0, 0, 0)}
    assert [(line.records, line.filtered) for line in found.lines] == [(3, 1)]
    assert (found.differences, found.unevaluated) == ([], {})
    make_topics(stage.bootstrap, topic)
    again = replace(stage, at=0, topic_id=topic_id_of(stage.bootstrap, topic)).prepare()
    again.settle(event("e-3", stage.name), event("e-1", stage.name), envelope("bad", stage.name, BAD))
    found = stated(stage, control)
    assert counts(found) == {f"onramp.{stage.table}": (5, 3, 1, 1, 0)}
    assert [(line.records, line.filtered) for line in found.lines] == [(6, 1)]
    assert (found.differences, found.unevaluated) == ([], {})


def test_two_types_on_one_topic_have_one_line_and_a_destination_each(stage: Stage, control: str) -> None:
    routes = Routes("onramp", event_routes=(EventRoute(stage.name, "onramp"), EventRoute("second", "onramp")))
    stage.settle(
        *(event(f"a-{n}", stage.name) for n in range(3)),
        *(event(f"b-{n}", "second") for n in range(2)),
        routes=routes,
    )
    found = stated(stage, control)
    assert [line.records for line in found.lines] == [5]
    assert counts(found) == {
        f"onramp.{stage.table}": (3, 3, 0, 0, 0),
        "onramp.events.second": (2, 2, 0, 0, 0),
    }
    assert (found.differences, found.unevaluated) == ([], {})


def test_a_type_without_a_registry_entry_is_stated_by_its_topic() -> None:
    registry = MemoryRegistry()
    assert topic_of_type(registry, "deleted") == wire.topic_of("deleted")


def test_diverted_events_wait_on_kafka(stage: Stage, control: str) -> None:
    stage.settle(event("e-1", stage.name))
    stage.settle(event("e-2", stage.name), event("e-3", stage.name), divert=True)
    (line,) = stated(stage, control).lines
    assert (line.records, line.diverted) == (1, 2)


def test_parked_events_are_shown_by_their_state_now(stage: Stage, control: str) -> None:
    session = IngesterSession.open(control)
    assert session is not None
    session.close()
    stage.settle(envelope("bad", stage.name, BAD))
    columns = '(topic_id, topic, partition, "offset", destination, group_id, code, parked_at, reason, size)'
    execute(
        control,
        "INSERT INTO onramp_admin.groups (fingerprint, version, first_seen, last_seen) "  # noqa: S608
        "VALUES ('\\x00', 1, now(), now());"
        f"INSERT INTO onramp_admin.parked {columns} SELECT '{stage.topic_id}', "
        f"'{stage.partition.topic}', 0, n, 'onramp.{stage.table}', g.id, 'x', now(), '{{}}', 2 "
        "FROM onramp_admin.groups g, generate_series(0, 1) n;"
        "INSERT INTO onramp_admin.states (event, group_id, state) "
        "SELECT id, group_id, 'discarded' FROM onramp_admin.parked ON CONFLICT (event) DO UPDATE "
        "SET state = 'discarded'",
    )
    found = stated(stage, control)
    # The second event is above the ledger, so it is of no period yet.
    assert found.parked_states == {
        (stage.partition.topic, f"onramp.{stage.table}"): {"discarded": 1},
    }


@pytest.mark.full
def test_500_types_in_three_databases_are_read_within_the_deadline(stage: Stage, control: str) -> None:
    columns = "md5(n::text)::uuid, 'events.type_' || n, p"
    numbers = "generate_series(1, 500) n, generate_series(0, 5) p"
    outcomes = "unnest('{landed,parked}'::text[]) outcome"
    stage.execute(
        "INSERT INTO onramp.ledger (topic_id, topic, partition, next_offset, epoch) "  # noqa: S608
        f"SELECT {columns}, 8, 1 FROM {numbers};"
        "INSERT INTO onramp.totals (topic_id, topic, partition, destination, outcome, events) "
        f"SELECT {columns}, 'events.type_' || n, outcome, 4 FROM {numbers}, {outcomes};"
        "INSERT INTO onramp.routed (topic_id, topic, partition, destination, events) "
        f"SELECT {columns}, 'events.type_' || n, 8 FROM {numbers}"
    )
    databases = statements(stage, control, second=stage.dsn, third=stage.dsn)
    found = asyncio.run(databases.of(None, None, lambda _: True))
    assert {"onramp", "second", "third", "Kafka"}.isdisjoint(found.unevaluated)
    assert len(found.lines) == 3 * 501
