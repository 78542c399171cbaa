"""Journeys: the reported outcome of an event agrees with Kafka and the databases, and doubts are named."""

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import orjson
import pytest
from confluent_kafka import Consumer, TopicPartition
from fastapi import FastAPI
from typer.testing import CliRunner

from services.admin.api.app import api
from services.admin.api.journey import add_journey, find_journey
from services.admin.api.lake_journeys import LakeJourneys
from services.admin.api.operators import LOCAL, Caller, Operators
from services.admin.dead_letters.ingester import IngesterStatus
from services.admin.store.jobs_sql import Plan
from services.cli.app import app
from services.ops.journey import finder as finders
from services.ops.journey.finder import Finder
from services.ops.journey.timeline import Journey, Kind
from services.ops.kafka_logs import KafkaLogs
from services.ops.settled.reader import SettledReader
from services.writer.model.routes import EventRoute, Routes, SourceRoute
from services.writer.replay.replay import Replay
from shared import wire
from shared.kafka_read.offsets import Partition
from shared.kafka_security import Brokers
from shared.registry.memory import MemoryRegistry
from tests.fixtures.delta_tables import silent_storage
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database, Templates
from tests.fixtures.silent_servers import black_holes
from tests.fixtures.writer import (
    database_of,
    delete_records,
    delete_topic,
    envelope,
    event,
    make_topics,
    rows,
)
from tests.integration.admin.admin_service import refused
from tests.integration.admin.conftest import BAD, ROUTES, Stage, database_beside, disconnect, topic_id_of
from tests.integration.admin.job_bench import Desk, desk_of
from tests.integration.admin.operator_service import key_of, registry

TYPED = """
    CREATE TABLE public.typed (_id text PRIMARY KEY, _topic text, _partition int, _offset bigint, n int);
    CREATE TABLE public.bare (n int)
"""


#: The outcomes of the two hundred events; forty of them have two destinations.
OUTCOMES = {
    "landed": 140, "duplicate": 20, "filtered": 20, "parked": 27, "discarded": 2, "replayed": 2,
    "replay_failed": 1, "waiting": 25, "not_settled": 3,
}  # fmt: skip


@dataclass
class Scenes:
    """Two hundred events on one partition, some of each outcome."""

    stage: Stage
    desk: Desk
    finder: Finder

    def of(self, offset: int) -> Journey:
        return self.find(f"{self.stage.partition.topic}/0/{offset}")

    def find(self, text: str, **more: Any) -> Journey:
        return asyncio.run(self.finder.find(text, **more))

    @property
    def landing(self) -> str:
        return f"onramp.{self.stage.table}"


def fill(stage: Stage, control: str) -> Desk:
    """Send and settle the events, and act on those that are parked."""
    name = stage.name
    both = Routes(
        "onramp", event_routes=(EventRoute(name, "onramp"), EventRoute(name, "onramp", "public", "typed"))
    )
    stage.settle(*(event(f"e-{n}", name, n=n) for n in range(60)))
    stage.settle(*(event(f"e-{n}", name, n=n) for n in range(60, 100)), routes=both)
    stage.settle(*(event(f"e-{n}", name, n=n) for n in range(20)))
    stage.settle(*(event(f"f-{n}", name) for n in range(20)), wanted=False)
    stage.settle(*(envelope(f"p-{n}", name, BAD) for n in range(30)), b"no json", b"[]")
    with desk_of(stage, control) as desk:
        for kind, which, plan in (
            ("discard", ("p-0", "p-1"), Plan()),
            ("replay", ("p-2", "p-3"), Plan(fix='[{"drop":"/a"}]')),
            ("replay", ("p-4",), Plan()),
        ):
            for event_id in which:
                desk.start(kind, plan=plan, event_id=event_id)
                desk.work()
                Replay(database_of(stage.dsn)).run(ROUTES)
                desk.work()
    stage.hold("type", name, "paused")
    stage.settle(*(event(f"w-{n}", name) for n in range(15)))
    stage.settle(*(event(f"d-{n}", name) for n in range(10)), divert=True)
    stage.send(*(event(f"k-{n}", name) for n in range(3)))
    disconnect()
    return desk


def prepared(stage: Stage) -> Stage:
    """Make the stage's topic, and know it by Kafka's own id."""
    make_topics(stage.bootstrap, stage.partition.topic)
    known = topic_id_of(stage.bootstrap, stage.partition.topic)
    return replace(stage, topic_id=known, has_topic=True).prepare()


@pytest.fixture
def own(own_topics: HasBootstrap, migrated: Database) -> Stage:
    """A stage for one test alone."""
    return prepared(Stage(own_topics.bootstrap, migrated.dsn))


@pytest.fixture(scope="module")
def scenes(own_topics: HasBootstrap, templates: Templates) -> Iterator[Scenes]:
    with (
        database_beside(templates.server, templates.writer) as dsn,
        database_beside(templates.server, templates.control) as control,
    ):
        stage = prepared(Stage(own_topics.bootstrap, dsn))
        stage.execute(TYPED)
        desk = fill(stage, control)
        finder = Finder(Brokers(stage.bootstrap), {"onramp": dsn}, control)
        yield Scenes(stage, desk, finder)


# --- an independent reading -----------------------------------------------------------------------


def records_of(stage: Stage) -> dict[int, Any]:
    """Read the partition whole, with another client."""
    settings = {"bootstrap.servers": stage.bootstrap, "group.id": "reading", "enable.partition.eof": True}
    found: dict[int, Any] = {}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(stage.partition.topic, 0, 0)])
        while not (message := consumer.poll(20)).error():
            found[message.offset()] = message
    return found


def id_in(value: bytes) -> str | None:
    try:
        return str(orjson.loads(value)["metadata"]["id"])
    except (ValueError, TypeError):
        return None


def outcomes_of(scenes: Scenes) -> dict[int, dict[str, str]]:
    """Return the outcome of each event by offset and destination, from the tables and Kafka alone."""
    stage, landing, messages = scenes.stage, scenes.landing, records_of(scenes.stage)
    ids = {offset: id_in(message.value()) for offset, message in messages.items()}
    found = {o: {} if message.headers() else {"-": "filtered"} for o, message in messages.items()}
    for offset, state in rows(scenes.desk.dsn, 'SELECT "offset", state FROM onramp_admin.events'):
        found[offset][landing if ids[offset] else "any table"] = {"open": "parked"}.get(state, state)
    for table, name in ((stage.table, landing), ("public.typed", "onramp.public.typed")):
        for offset, id_ in stage.rows(f"SELECT _offset, _id FROM {table}"):  # noqa: S608
            assert ids[offset] == id_
            found[offset].setdefault(name, "landed")
    for statement, kind in (
        ('SELECT "offset" FROM onramp.waiting', "waiting"),
        ("SELECT \"offset\" FROM onramp.replayed WHERE outcome = 'parked'", "replay_failed"),
    ):
        for (offset,) in stage.rows(statement):
            found[offset][landing] = kind
    landed = {row[0] for row in stage.rows(f"SELECT _id FROM {stage.table}")}  # noqa: S608
    [(ledger,)] = stage.rows("SELECT next_offset FROM onramp.ledger")
    for offset in (o for o, of in found.items() if not of):
        assert offset >= ledger or ids[offset] in landed
        waiting = {landing: "waiting"} if offset < stage.at - 3 else {"-": "not_settled"}
        found[offset] = {landing: "duplicate"} if offset < ledger else waiting
    return found


def agree(scenes: Scenes, offsets: Iterable[int]) -> Counter[str]:
    """Compare the journeys of `offsets` with the reading; return how many have which outcome."""
    expected = outcomes_of(scenes)
    assert len(expected) == 200
    said: dict[int, dict[str, str]] = {}
    for offset in offsets:
        journey = scenes.of(offset)
        assert not journey.doubts, (offset, journey.doubts)
        [passage] = journey.passages
        said[offset] = {step.destination or "-": step.kind.value for step in passage.outcomes}
    assert said == {offset: expected[offset] for offset in said}
    return Counter(kind for of in said.values() for kind in of.values())


def test_sampled_events_of_each_outcome_agree_with_an_independent_reading(scenes: Scenes) -> None:
    kinds = agree(scenes, (*range(0, 200, 9), 140, 142, 144, 170, 198))
    assert set(kinds) == {*OUTCOMES}


@pytest.mark.full
def test_two_hundred_events_agree_with_an_independent_reading(scenes: Scenes) -> None:
    assert agree(scenes, range(200)) == OUTCOMES


def test_each_outcome_has_its_sentence(scenes: Scenes) -> None:
    topic, landing, name = scenes.stage.partition.topic, scenes.landing, scenes.stage.name
    assert scenes.of(0).sentence == f"e-0 ({name}) landed in {landing}."
    assert scenes.of(60).sentence == f"e-60 ({name}) landed in {landing} and onramp.public.typed."
    text = f"e-0 ({name}) is a duplicate of {topic}/0/0, whose row is in {landing}."
    assert scenes.of(100).sentence == text
    assert scenes.of(120).sentence.endswith(
        "was filtered: its header `context` does not mark it for the writer."
    )
    assert scenes.of(140).sentence == f"p-0 ({name}) was parked and discarded for {landing}."
    assert "fixed and replayed by ann in job 3 (fixed): landed in" in scenes.of(142).sentence
    assert scenes.of(144).sentence == f"p-4 ({name}) is parked after a failed replay for {landing}."
    assert scenes.of(172).sentence == (
        f"w-0 ({name}) waits for {landing}: the type {name} is paused since "
        f"{scenes.of(172).passages[0].outcomes[0].text[-23:]}."
    )


def test_an_id_has_all_its_acceptances(scenes: Scenes) -> None:
    journey = scenes.find("e-0", event_name=scenes.stage.name)
    receipts = [str(passage.receipt) for passage in journey.passages]
    assert receipts == [f"{scenes.stage.partition.topic}/0/{offset}" for offset in (100, 0)]
    assert [passage.outcomes[0].kind for passage in journey.passages] == [Kind.DUPLICATE, Kind.LANDED]
    assert "searched to the oldest record" in " ".join(journey.searched)
    [sql] = {step.sql for step in journey.steps if step.sql}
    assert scenes.stage.rows(sql)[0][0] == "e-0"


# --- doubts ---------------------------------------------------------------------------------------


def test_a_database_that_hangs_is_named_and_the_others_answer(scenes: Scenes) -> None:
    with black_holes(2) as (hung, control):
        databases = {**scenes.finder.databases, "hung": hung}
        journey = replace(scenes, finder=replace(scenes.finder, databases=databases)).of(0)
        assert journey.sentence.endswith(f"landed in {scenes.landing}.")
        assert "database hung does not answer" in " ".join(journey.doubts)
        journey = replace(scenes, finder=replace(scenes.finder, control=control)).of(142)
        assert "by a job that is not in the control database" in journey.sentence
        assert "the control database does not answer" in " ".join(journey.doubts)


def test_an_event_of_a_database_that_hangs_is_not_called_landed(scenes: Scenes) -> None:
    with black_holes(1) as (hung,):
        journey = replace(scenes, finder=replace(scenes.finder, databases={"onramp": hung})).of(0)
    outcomes = {step.destination: step.kind for step in journey.passages[0].outcomes}
    assert outcomes[scenes.landing] is Kind.UNKNOWN
    assert set(outcomes.values()) == {Kind.UNKNOWN}
    assert journey.unanswered


def test_a_lake_that_hangs_is_named_and_the_row_is_known(scenes: Scenes) -> None:
    with silent_storage() as storage:
        lake = LakeJourneys(storage, lambda: None, 0.05)
        journey = find_journey(scenes.finder, LOCAL, "e-0", None, lake)
    assert journey.sentence.endswith(f"landed in {scenes.landing}.")
    assert "the storage of the lake did not answer in 0.05 s" in " ".join(journey.doubts)


def test_without_kafka_the_row_answers_and_the_record_is_unknown(scenes: Scenes) -> None:
    journey = replace(scenes, finder=replace(scenes.finder, brokers=Brokers("127.0.0.1:1"))).of(0)
    assert journey.sentence.startswith("e-0 ")
    assert journey.sentence.endswith(f"landed in {scenes.landing}.")
    assert "whether Kafka has the record is unknown" in " ".join(journey.doubts)


@pytest.mark.parametrize("databases", [None, {"onramp": "host=127.0.0.1 port=1"}])
def test_without_kafka_a_parked_event_is_known_and_kafka_is_named(
    scenes: Scenes, databases: dict[str, str] | None
) -> None:
    finder = replace(scenes.finder, brokers=Brokers("127.0.0.1:1"), settled=SettledReader())
    finder = replace(finder, databases=databases or finder.databases)
    for subject in (f"{scenes.stage.partition.topic}/0/145", "p-5"):
        journey = find_journey(finder, LOCAL, subject, None)
        outcomes = [(step.kind, step.destination) for step in journey.passages[0].outcomes]
        assert (Kind.PARKED, scenes.landing) in outcomes
        assert journey.sentence.startswith(f"p-5 ({scenes.stage.name}) ")
        assert "Kafka at 127.0.0.1:1 cannot be read" in " ".join(journey.doubts)


def test_event_that_was_never_on_kafka_is_unknown_and_the_sentence_gives_the_reason(scenes: Scenes) -> None:
    topic = scenes.stage.partition.topic
    journey = scenes.of(200)
    assert (journey.is_known, journey.steps) == (False, ())
    assert f"{topic}/0 on Kafka ends before offset 200" in journey.sentence
    assert "Kafka has no partition events.never/0" in scenes.find("events.never/0/1").sentence
    journey = scenes.find("nobody", event_name=scenes.stage.name)
    assert not journey.is_known
    assert "1 partition was searched to the oldest record" in journey.sentence


def test_more_tables_than_are_searched_ask_for_the_type(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finders, "MAX_TABLES", 1)
    journey = scenes.find("e-0")
    assert journey.needs_type
    assert "give the event type" in " ".join(journey.doubts)
    assert "_id" not in " ".join(journey.searched)
    assert not scenes.find("e-0", event_name=scenes.stage.name).needs_type


def test_an_id_that_needs_its_type_is_answered_without_kafka(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenes.find("e-0")  # reads the log of settled work
    monkeypatch.setattr(finders, "MAX_TABLES", 1)
    without_kafka = replace(scenes.finder, brokers=Brokers("127.0.0.1:1"))
    journey = asyncio.run(without_kafka.find("nobody"))
    assert (journey.needs_type, journey.unanswered) == (True, ())


def test_a_record_that_kafka_has_deleted_is_found_by_its_row(own: Stage, templates: Templates) -> None:
    own.settle(event("a", own.name), envelope("b", own.name, BAD), event("c", own.name))
    with database_beside(templates.server, templates.control) as control, desk_of(own, control):
        finder = Finder(Brokers(own.bootstrap), {"onramp": own.dsn}, control)
        delete_records(own.bootstrap, own.partition.topic, 0, 3)
        own.execute(f"DELETE FROM {own.table} WHERE _id = 'c'")  # noqa: S608
        [landed, parked, gone] = [
            asyncio.run(finder.find(f"{own.partition.topic}/0/{offset}")) for offset in range(3)
        ]
    assert landed.sentence == f"a ({own.name}) landed in onramp.{own.table}."
    assert "no longer on Kafka" in " ".join(landed.doubts)
    assert parked.sentence == f"b ({own.name}) is parked for onramp.{own.table}."
    assert not gone.is_known
    assert "no longer on Kafka" in gone.sentence


def test_a_topic_that_was_made_again_has_none_of_the_events_before(own: Stage) -> None:
    own.settle(event("a", own.name))
    delete_topic(own.bootstrap, own.partition.topic)
    make_topics(own.bootstrap, own.partition.topic)
    again = replace(own, at=0, topic_id=topic_id_of(own.bootstrap, own.partition.topic))
    again.send(event("b", own.name))
    finder = Finder(Brokers(own.bootstrap), {"onramp": own.dsn}, "")
    journey = asyncio.run(finder.find(f"{own.partition.topic}/0/0"))
    assert [step.kind for step in journey.passages[0].outcomes] == [Kind.NOT_SETTLED]
    assert journey.sentence.startswith("b ")


@dataclass
class Changes(Stage):
    """A stage of a topic of a source."""

    @property
    def partition(self) -> Partition:
        return Partition(self.name, 0)


def test_a_change_of_a_source_has_the_lsn_of_its_commit(own_topics: HasBootstrap, migrated: Database) -> None:
    source = f"s{secrets.token_hex(4)}"
    routes = Routes("onramp", sources=(SourceRoute(source, "onramp"),))
    changes, ends = (
        prepared(Changes(own_topics.bootstrap, migrated.dsn, f"cdc.{source}-{rest}"))
        for rest in ("app-orders", "transaction")
    )
    place = {"schema": "app", "table": "orders", "txId": 7}
    changes.settle(
        *(orjson.dumps({"op": "c", "source": place | {"lsn": n}}) for n in (1000, 1001)), routes=routes
    )
    finder = Finder(Brokers(own_topics.bootstrap), {"onramp": migrated.dsn}, "")
    receipt = f"{changes.name}/0/1"
    journey = asyncio.run(finder.find(receipt))
    assert journey.passages[0].outcomes[0].facts == {"lsn": "0/3E9", "commit_lsn": None, "op": "c"}
    assert "its commit LSN is unknown" in " ".join(journey.doubts)
    ends.settle(orjson.dumps({"status": "END", "id": "7:1234", "data_collections": []}), routes=routes)
    journey = asyncio.run(finder.find(receipt))
    [landed] = journey.passages[0].outcomes
    assert (landed.kind, landed.destination) == (Kind.LANDED, f"onramp.landing.{source}__app__orders")
    assert landed.facts == {"lsn": "0/3E9", "commit_lsn": "0/4D2", "op": "c"}
    assert migrated_row(migrated.dsn, landed.sql)["source"]["lsn"] == 1001
    assert not journey.doubts


def migrated_row(dsn: str, sql: str | None) -> Any:
    """Return the change that the shown statement selects."""
    [(_, _, change)] = rows(dsn, sql or "")
    return change


@pytest.mark.full
def test_an_id_is_found_among_a_million_rows_in_ten_tables(own: Stage) -> None:
    own.settle(event("needle", own.name))
    for name in (f"t{number}" for number in range(10)):
        own.execute(f"CREATE TABLE events.{name} (LIKE events.{own.name} INCLUDING ALL)")
        own.execute(
            f"INSERT INTO events.{name} SELECT 'r-' || n, '{name}', now(), '1', now(), "  # noqa: S608
            f"'events.{name}', 0, n, '{{}}' FROM generate_series(1, 100000) n"
        )
    own.settle(event("needle", own.name), event("other", own.name))
    finder = Finder(Brokers(own.bootstrap), {"onramp": own.dsn}, "", event_names=lambda: [own.name])
    journey = asyncio.run(finder.find("needle"))
    assert [p.outcomes[0].kind for p in journey.passages] == [Kind.DUPLICATE, Kind.LANDED]
    assert "11 tables with the key _id were searched." in journey.searched
    everywhere = asyncio.run(finder.find("r-77777"))
    assert len(everywhere.passages) == 10
    assert {step.kind for step in everywhere.steps} == {Kind.LANDED}


def test_readers_of_the_settled_log_that_wait_for_each_other_leave_the_event_loop_free(
    scenes: Scenes,
) -> None:
    async def refresh_twice() -> None:
        reader, brokers = SettledReader(), Brokers(scenes.stage.bootstrap)
        async with KafkaLogs(brokers) as first, KafkaLogs(brokers) as second:
            assert (await first.named_topics(wire.SETTLED)).keys() == {wire.SETTLED}
            await asyncio.gather(reader.refresh(first), reader.refresh(second))

    asyncio.run(refresh_twice())


# --- who may see it -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def service(scenes: Scenes) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield

    operators = Operators(MemoryRegistry(registry("ada", "olga")))
    made = api(scenes.desk.dsn, scenes.finder.databases, IngesterStatus(), operators, lifespan=lifespan)
    add_journey(made, scenes.finder)
    return made


def get(service: FastAPI, path: str, name: str, **query: str) -> httpx2.Response:
    async def ask() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=service)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            headers = {"authorization": f"Bearer {key_of(name)}"}
            return await client.get(f"/v1/journey/{path}", headers=headers, params=query)

    return asyncio.run(ask())


def test_the_api_answers_without_values_and_only_what_its_caller_sees(
    scenes: Scenes, service: FastAPI
) -> None:
    receipt = f"{scenes.stage.partition.topic}/0/142"
    answer = get(service, receipt, "ada")
    assert answer.status_code == 200
    said = answer.json()
    assert (said["id"], said["event_name"], said["receipts"]) == ("p-2", scenes.stage.name, [receipt])
    assert [step["kind"] for step in said["steps"]] == ["accepted", "parked", "replayed"]
    assert "\\u0000" not in answer.text
    refused(get(service, receipt, "olga"), 404, "not_stored")
    hidden = refused(get(service, "e-0", "olga", event_name=scenes.stage.name), 404, "not_stored")
    missing = refused(get(service, "nobody", "olga", event_name="order_made"), 404, "not_stored")
    assert hidden == missing
    assert "searched" in refused(get(service, "nobody", "ada"), 404, "not_stored")["detail"]


def test_a_caller_for_some_events_does_not_see_the_extent_of_the_search(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = Caller("olga", "viewer", (scenes.stage.name,))
    whole, own = (find_journey(scenes.finder, caller, "e-0", None) for caller in (LOCAL, some))
    assert whole.searched
    assert (own.sentence, own.searched, own.unknown) == (whole.sentence, (), ())
    monkeypatch.setattr(finders, "MAX_TABLES", 1)
    asking = find_journey(scenes.finder, some, "nobody", None)
    assert (asking.needs_type, asking.searched) == (True, ())
    assert "More than" not in " ".join(asking.doubts)


@pytest.mark.parametrize(
    "text", ["a/b", "topic/0/x", "t/1/1/1", "t/99999999999/1", "a" * 129, "a b", "%00", "'; --", "t/0/-1"]
)
def test_text_that_is_neither_an_id_nor_a_receipt_is_refused(service: FastAPI, text: str) -> None:
    refused(get(service, text, "ada"), 422, "bad_query")


def test_the_command_line_prints_the_sentence_and_the_steps(scenes: Scenes) -> None:
    receipt = f"{scenes.stage.partition.topic}/0/142"
    where = [*scenes.stage.arguments, "--control", scenes.desk.dsn]
    shown = CliRunner().invoke(app, ["journey", receipt, *where])
    assert shown.exit_code == 0, shown.output
    first, *rest = shown.stdout.splitlines()
    assert "fixed and replayed by ann" in first
    table = f'"events"."{scenes.stage.name}"'
    assert any(line.endswith(f"FROM {table} WHERE _id = 'p-2'") for line in rest)
    said = CliRunner().invoke(app, ["journey", receipt, "--json", *where])
    assert json.loads(said.stdout)["sentence"] == first
    assert CliRunner().invoke(app, ["journey", f"{receipt}000", *where]).exit_code == 1
    assert CliRunner().invoke(app, ["journey", "a/b", *where]).exit_code == 2
