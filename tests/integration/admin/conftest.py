"""A bench for the audit: a topic of the test, settled by the writer's tasks without Spark."""

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import orjson
import psycopg2
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from services.admin.jobs.job_session import JobSession
from services.ops.audit import run as audits
from services.ops.audit.run import Request, audit
from services.ops.findings import Report
from services.ops.kafka_logs import KafkaLogs
from services.writer.kafka.producer import Record, publish
from services.writer.model.routes import Routes
from services.writer.park import outbox
from services.writer.park.diverted_topic import RangeMarker
from services.writer.partitions.plan_log import PlanLog, Totals
from services.writer.postgres import pool
from services.writer.postgres.database import Database as Configured
from services.writer.postgres.pool import transaction
from services.writer.settle import ledger
from services.writer.settle.task import settle
from services.writer.settle.work_order import TaskReport, WorkOrder
from shared import wire
from shared.kafka_read.offsets import Generation, Partition, Range
from shared.kafka_read.records import LARGE, USUAL
from shared.kafka_security import Brokers
from stack import services
from stack.kafka import Kafka
from stack.registry import OwnRegistry
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database, HasDsn, Templates
from tests.fixtures.running_part import started
from tests.fixtures.writer import (
    CONTEXT,
    arrivals,
    database_of,
    envelope,
    event,
    eventually,
    execute,
    make_topics,
    produce,
    read,
    rows,
)
from tests.integration.admin.admin_service import Admin
from tests.integration.admin.job_bench import EVERY, Desk, desk_of
from tests.integration.admin.operator_service import EVENTS, OPERATORS, Guarded, registry

EPOCH = 1
ROUTES = Routes("onramp")
BAD = b'{"a":"\\u0000"}'
REAL = b'{"b":1.50,"a":[1e2,12345678901234567890.5,"\xc3\xa9"],"c":null}'


def topic_id_of(bootstrap: str, topic: str) -> str:
    async def ask() -> str | None:
        async with KafkaLogs(Brokers(bootstrap)) as logs:
            known = (await logs.named_topics(topic)).get(topic)
            return known and known.topic_id

    return eventually(lambda: asyncio.run(ask()))


@dataclass
class Stage:
    """One partition: what is produced is settled as the writer would, its notes included."""

    bootstrap: str
    dsn: str
    name: str = field(default_factory=lambda: f"event_{secrets.token_hex(4)}")
    topic_id: str = field(default_factory=lambda: str(uuid4()))
    at: int = 0
    notes: PlanLog = field(default_factory=PlanLog)
    has_topic: bool = False

    @property
    def partition(self) -> Partition:
        return Partition(wire.topic_of(self.name), 0)

    @property
    def table(self) -> str:
        return f"events.{self.name}"

    @property
    def database(self) -> Configured:
        return database_of(self.dsn)

    def prepare(self) -> "Stage":
        if not self.has_topic:
            make_topics(self.bootstrap, self.partition.topic)
        self.claim(0)
        return self

    def claim(self, first: int) -> None:
        """Claim this generation from `first` on."""
        with transaction(self.database, "driver") as conn:
            ledger.claim(conn, {Generation(self.topic_id, self.partition): first}, EPOCH)
        self.tell(self.notes.baseline_entries({(self.topic_id, 0): first}, ["onramp"]))

    def send(self, *values: bytes | None, wanted: bool = True, large: bool = False) -> int:
        """Put `values` on Kafka only; the offset of the first."""
        headers = [(wire.HEADER_CONTEXT, b"x" * (wire.MAX_HEADER_BYTES + 1))] if large else CONTEXT
        produce(self.bootstrap, self.partition.topic, values, headers=headers if wanted else [])
        self.at += len(values)
        return self.at - len(values)

    @contextmanager
    def compacted(self) -> Iterator[None]:
        """Have Kafka compact the topic while the block runs."""
        self._set_cleanup_policy("compact")
        try:
            yield
        finally:
            self._set_cleanup_policy("delete")

    def _set_cleanup_policy(self, policy: str) -> None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.partition.topic)
        resource.add_incremental_config(
            ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
        )
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(30)

    def settle(
        self,
        *values: bytes | None,
        wanted: bool = True,
        large: bool = False,
        divert: bool = False,
        routes: Routes = ROUTES,
    ) -> int:
        """Send `values`, settle or divert them, and move the group; the offset of the first."""
        first = self.send(*values, wanted=wanted, large=large)
        contexts = [LARGE if large else USUAL if wanted else None] * len(values)
        batch = arrivals(values, first=first, partition=self.partition, context=contexts)
        range_ = Range(self.topic_id, self.partition, first, self.at)
        landing: tuple[Configured, ...] = () if divert else (self.database,)
        order = WorkOrder(
            epoch=EPOCH,
            ranges={self.partition: range_},
            landing=landing,
            diverted=("onramp",) if divert else (),
            routes=routes,
            brokers=Brokers(self.bootstrap),
        )
        self.tell(self.notes.routes_entries(routes))
        reports = settle(order, read(batch))
        assert not [r.failure for r in reports if r.failure], reports
        outbox.relay(self.database, Brokers(self.bootstrap))
        for report in reports:
            if divert and report.database:
                self.mark(range_, report.diverted, routes.digest)
            elif not report.database:
                self.tell(self.notes.totals_entries(EPOCH, range_, _totals(report, range_)))
        self.commit()
        return first

    def mark(self, range_: Range, count: int, digest: str = ROUTES.digest) -> None:
        """Close a diverted range."""
        publish(
            Brokers(self.bootstrap),
            [RangeMarker("onramp", range_, count=count, first=0, digest=digest).as_record()],
        )

    def note(self, totals: Totals) -> None:
        """Write the counts without a database into `onramp.settled`."""
        key = f"totals/{self.topic_id}/0/{EPOCH}".encode()
        publish(Brokers(self.bootstrap), [Record(wire.SETTLED, key, orjson.dumps([*totals]))])

    def commit(self) -> None:
        """Move the writer's group to where this stage is."""
        with closing(
            Consumer({"bootstrap.servers": self.bootstrap, "group.id": wire.WRITER_GROUP})
        ) as consumer:
            consumer.commit(offsets=[TopicPartition(*self.partition, self.at)], asynchronous=False)

    def park(self, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> None:
        """Put a record on `onramp.user_errors`, as any client may."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        producer.produce(wire.USER_ERRORS, key=key, value=value, headers=list(headers))
        assert producer.flush(30) == 0

    def hold(self, kind: str, name: str, state: str) -> None:
        """A table is blocked, or an event type is paused."""
        self.execute(f"INSERT INTO onramp.holds (kind, name, state) VALUES ('{kind}', '{name}', '{state}')")  # noqa: S608

    def execute(self, statement: str) -> None:
        execute(self.dsn, statement)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return rows(self.dsn, statement)

    def audit(self, *, deep: bool = True, control: str = "", **others: str) -> Report:
        topics = self.partition.topic.replace(".", r"\.")
        databases = {"onramp": self.dsn} | others
        return asyncio.run(audit(Request(Brokers(self.bootstrap), databases, topics, deep, control)))

    def found(self, *, deep: bool = True) -> set[tuple[str, int | None]]:
        """The findings' codes and offsets."""
        return {(f.code.value, f.offset) for f in self.audit(deep=deep).findings}

    @property
    def arguments(self) -> list[str]:
        """The command line's options that lead here."""
        return ["--kafka", self.bootstrap, "--dsn", self.dsn]

    def note_routes(self, routes: Routes) -> None:
        """Write a plan under `routes`, as a writer of this Kafka."""
        self.tell(self.notes.plan_entries(EPOCH, [Range(self.topic_id, self.partition, 0, self.at)], routes))

    def tell(self, entries: Sequence[tuple[str, bytes]]) -> None:
        """Append entries to the writer's notes."""
        publish(
            Brokers(self.bootstrap), [Record(wire.SETTLED, key.encode(), value) for key, value in entries]
        )
        for key, value in entries:
            self.notes.apply(key, value)


def _totals(report: TaskReport, range_: Range) -> Totals:
    holes = len(range_) - report.read
    return Totals(0, report.filtered, report.unroutable, report.refused, holes)


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an audit read twice, without pauses, instead of five times: a stage does not change."""
    monkeypatch.setattr(audits, "_ATTEMPTS", 2)
    monkeypatch.setattr(audits, "_BETWEEN_SECONDS", 0.0)


@pytest.fixture(scope="package")
def own_topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HasBootstrap]:
    """A Kafka where no writer runs, with Onramp's own topics: a second writer would park as well."""
    with started(Kafka(tmp_path_factory.mktemp("kafka"))) as kafka:
        for topic, partitions in ((wire.USER_ERRORS, 2), (wire.SYSTEM_ERRORS, 2), (wire.SETTLED, 1)):
            make_topics(kafka.bootstrap, topic, partitions=partitions)
        yield kafka


@pytest.fixture(scope="package")
def event_names(own_topics: HasBootstrap) -> Iterator[str]:
    """Names of event types with a topic: a request for twenty costs Kafka little more than one for one."""

    def names() -> Iterator[str]:
        while True:
            made = [f"event_{secrets.token_hex(4)}" for _ in range(20)]
            make_topics(own_topics.bootstrap, *map(wire.topic_of, made))
            yield from made

    return names()


@pytest.fixture
def stage(own_topics: HasBootstrap, event_names: Iterator[str], migrated: Database) -> Stage:
    return Stage(own_topics.bootstrap, migrated.dsn, next(event_names), has_topic=True).prepare()


@pytest.fixture(scope="package")
def original(own_topics: HasBootstrap, templates: Templates) -> Iterator[Stage]:
    """One stage with every verdict: 0-4 land, 5 repeats 0, 6 parked, 7 unroutable, 8 filtered, 9 a probe."""
    with database_beside(templates.server, templates.writer) as dsn:
        stage = Stage(own_topics.bootstrap, dsn).prepare()
        good = [event(f"e-{i}", stage.name, n=i) for i in range(4)]
        stage.settle(*good, envelope("e-4", stage.name, REAL))
        stage.settle(good[0])
        stage.settle(envelope("e-6", stage.name, BAD), b"no json")
        stage.settle(event("e-8", stage.name), wanted=False)
        stage.settle(event("probe", wire.PROBE_EVENT))
        disconnect()
        yield stage


@pytest.fixture
def settled(original: Stage, postgres: HasDsn) -> Iterator[Stage]:
    """The original with a database of the test's own, to plant mistakes in."""
    name = urlsplit(original.dsn).path.removeprefix("/")
    with database_beside(postgres.dsn, name) as dsn:
        yield replace(original, dsn=dsn)


@contextmanager
def database_beside(server: str, template: str) -> Iterator[str]:
    """A database made of `template`, and dropped at the end."""
    name = f"test_{secrets.token_hex(6)}"
    _maintain(server, f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        _maintain(server, f"DROP DATABASE {name} WITH (FORCE)")


def _maintain(server: str, statement: str) -> None:
    with closing(psycopg2.connect(server)) as conn:
        conn.autocommit = True
        with conn.cursor() as cursor:
            cursor.execute(statement)


def disconnect() -> None:
    """Close the writer's connections of this process: a database in use is no template."""
    pool.close_all()


@contextmanager
def parked_desk(stage: Stage, templates: Templates) -> Iterator[Desk]:
    """A control database that has stored five parked events of `stage`, and one record that is no event."""
    stage.settle(*(envelope(f"e-{n}", stage.name, b'{"a":"\\u0000"}') for n in EVERY), b"no json")
    with database_beside(templates.server, templates.control) as dsn, desk_of(stage, dsn) as desk:
        yield desk


@pytest.fixture(scope="package")
def original_desk(own_topics: HasBootstrap, templates: Templates) -> Iterator[Desk]:
    """The databases that those of `desk` are copies of, without a session."""
    with database_beside(templates.server, templates.writer) as dsn:
        stage = Stage(own_topics.bootstrap, dsn).prepare()
        with parked_desk(stage, templates) as desk:
            desk.session.close()
            disconnect()
            yield desk


@pytest.fixture
def desk(original_desk: Desk, postgres: HasDsn) -> Iterator[Desk]:
    """Databases of one test with parked events; it sends nothing, because Kafka's topic is shared."""
    copied = [urlsplit(dsn).path.removeprefix("/") for dsn in (original_desk.stage.dsn, original_desk.dsn)]
    with database_beside(postgres.dsn, copied[0]) as dsn, database_beside(postgres.dsn, copied[1]) as control:
        session = JobSession.open(control, {"onramp": dsn})
        yield Desk(replace(original_desk.stage, dsn=dsn), control, session)
        session.close()
        disconnect()


@pytest.fixture
def sending_desk(stage: Stage, templates: Templates) -> Iterator[Desk]:
    """A bench with a topic of its own, to send more events."""
    with parked_desk(stage, templates) as desk:
        yield desk


@pytest.fixture(scope="module")
def admin(
    own_topics: HasBootstrap, postgres: HasDsn, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Admin]:
    """An admin service that stores the run's parked events, in a control database of its own."""
    log = tmp_path_factory.mktemp("admin") / "admin.log"
    with (
        database_beside(postgres.dsn, "template0") as dsn,
        started(services.admin(bootstrap=own_topics.bootstrap, dsn=dsn, log=log)) as service,
    ):
        yield Admin(service, dsn)


@pytest.fixture(scope="module")
def guarded(
    own_topics: HasBootstrap, postgres: HasDsn, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    """An admin service of which every operator has a key."""
    folder = tmp_path_factory.mktemp("guarded")
    own = OwnRegistry(own_topics.bootstrap, registry(*OPERATORS, expired="eve"))
    with database_beside(postgres.dsn, "template0") as dsn:
        log = folder / "admin.log"
        service = services.admin(bootstrap=own_topics.bootstrap, dsn=dsn, log=log, env=own.env)
        with started(service):
            guarded = Guarded(service, dsn, own)
            # What other tests have parked is kept before anybody looks at what is there.
            eventually(lambda: guarded.of("vera").get("/readyz").json().get("behind") == 0, 120)
            execute(dsn, EVENTS)
            yield guarded
