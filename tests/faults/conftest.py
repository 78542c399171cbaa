"""Brokers and databases of this folder alone: its writers fence each other, and its tests stop Kafka."""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from confluent_kafka.admin import AdminClient

import shared.event_lines
from shared import wire
from shared.event_lines import EventLines
from shared.topics import OWN_TOPICS
from stack import services
from stack.kafka import Kafka
from stack.postgres import Postgres
from tests.fixtures.fix_postgres import FAST, Database, HasDsn
from tests.fixtures.fix_stack import StartWriter
from tests.fixtures.inline import Inline, Places, start_inline
from tests.fixtures.running_part import started
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.silent_servers import Stopped
from tests.fixtures.two_topics import Bug, Two
from tests.fixtures.writer import delete_topic

StartInline = Callable[..., Inline]
#: The topics that every writer and gateway uses.
_OF_ONRAMP: Final = frozenset({wire.REGISTRY, *(spec.name for spec in OWN_TOPICS)})
_MANY: Final = 20


@dataclass(frozen=True)
class Ground:
    """A Kafka and its gateway."""

    kafka: Kafka
    gateway: str


@pytest.fixture(scope="package")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Shared by all fault tests, one after the other; every scene has its own topic and database."""
    folder = tmp_path_factory.mktemp("faults")
    with (
        started(Kafka(folder / "kafka")) as kafka,
        started(services.gateway(bootstrap=kafka.bootstrap, log=folder / "gateway.log")) as gateway,
    ):
        yield Ground(kafka, gateway.url)


@pytest.fixture(autouse=True)
def _few_topics(request: pytest.FixtureRequest) -> None:
    """Delete the topics of former tests from `ground`, whose writers have stopped.

    Each client of aiokafka decodes all topics when it starts: half of the CPU time of this folder's process.
    """
    if "ground" not in request.fixturenames:
        return
    bootstrap = request.getfixturevalue("ground").kafka.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = admin.list_topics(timeout=60).topics
    former = [name for name in topics if name not in _OF_ONRAMP and not name.startswith("__")]
    if len(former) >= _MANY:
        delete_topic(bootstrap, *former)


@pytest.fixture
def database(migrated: Database) -> Database:
    """A database with the writer's schema: each writer of these tests would otherwise create it first."""
    return migrated


@pytest.fixture
def scene(ground: Ground, database: Database, start_writer: StartWriter, tmp_path: Path) -> Scene:
    return Scene(
        start_writer=start_writer,
        bootstrap=ground.kafka.bootstrap,
        dsn=database.dsn,
        gateway=ground.gateway,
        folder=tmp_path,
    )


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Places:
    """The failpoints of the writers that run in this process."""
    return Places(monkeypatch)


@pytest.fixture
def inline_writers() -> Iterator[StartInline]:
    """Starts writers that are threads of this process: no Spark, and a second each."""
    running: list[Inline] = []
    try:
        yield partial(start_inline, running)
    finally:
        for writer in reversed(running):
            writer.stop()


@pytest.fixture
def inline(ground: Ground, database: Database, inline_writers: StartInline, tmp_path: Path) -> Scene:
    """A scene of inline writers."""
    return Scene(
        start_writer=inline_writers,
        bootstrap=ground.kafka.bootstrap,
        dsn=database.dsn,
        gateway=ground.gateway,
        folder=tmp_path,
    )


@pytest.fixture
def event_lines(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The event lines of this process instead of standard error's; they are on by default."""
    lines: list[bytes] = []

    def of_process(service: str, logger: str, per_second: int) -> EventLines:
        assert per_second == 1_000
        return EventLines(service, logger, 100_000, write=lines.extend)

    monkeypatch.setattr(shared.event_lines, "of_process", of_process)
    return lines


@pytest.fixture
def other(postgres: HasDsn, database: Database) -> Iterator[Other]:
    """A second database, under a name that no other test's markers have."""
    other = Other(postgres.dsn, urlsplit(database.dsn).path.lstrip("/") + "_other")
    other.create()
    try:
        yield other
    finally:
        other.drop()


@pytest.fixture
def fresh(other: Other) -> Iterator[Other]:
    """A new database for a dump of `other`."""
    found = other.sibling(other.dsn + "_fresh")
    found.create()
    try:
        yield found
    finally:
        found.drop()


def _run_again(part: Kafka | Postgres) -> None:
    """Start what a test has stopped."""
    if not part.children[0].running:
        part.start()
        part.wait_ready()


@pytest.fixture(scope="package")
def one_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """The server behind `breakable_postgres`."""
    with started(Postgres(tmp_path_factory.mktemp("breakable") / "postgres", settings=FAST)) as server:
        yield server


@pytest.fixture
def breakable_postgres(one_postgres: Postgres) -> Iterator[Postgres]:
    """A Postgres server to stop, kill and start, for one test after the other; it runs when a test begins."""
    yield one_postgres
    _run_again(one_postgres)


@pytest.fixture
def hung(breakable_postgres: Postgres) -> Other:
    """A database of a server that can be stopped."""
    other = Other(breakable_postgres.dsn, f"hung_{secrets.token_hex(4)}")
    other.create()
    return other


@pytest.fixture
def server(breakable_postgres: Postgres) -> Iterator[Stopped]:
    """The server of `hung`; it is continued after the test."""
    server = Stopped(breakable_postgres)
    yield server
    server.go_on()


@pytest.fixture
def on_breakable_postgres(ground: Ground, hung: Other, inline_writers: StartInline, tmp_path: Path) -> Scene:
    """A scene of inline writers whose own database is `hung`."""
    return Scene(
        start_writer=inline_writers,
        bootstrap=ground.kafka.bootstrap,
        dsn=hung.dsn,
        gateway=ground.gateway,
        folder=tmp_path,
    )


@pytest.fixture(scope="package")
def one_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """The broker behind `breakable_kafka`."""
    with started(Kafka(tmp_path_factory.mktemp("breakable") / "kafka")) as cluster:
        yield cluster


@pytest.fixture
def breakable_kafka(one_kafka: Kafka) -> Iterator[Kafka]:
    """A Kafka to stop, kill, litter and start, for one test after the other; each finds it without topics."""
    yield one_kafka
    _run_again(one_kafka)
    admin = AdminClient({"bootstrap.servers": one_kafka.bootstrap})
    topics = [name for name in admin.list_topics(timeout=20).topics if not name.startswith("__")]
    delete_topic(one_kafka.bootstrap, *topics)


@pytest.fixture
def start_alone(inline_writers: StartInline) -> Callable[..., Any]:
    """The function that starts the writers of `alone`."""
    return inline_writers


@pytest.fixture
def alone(
    breakable_kafka: Kafka, database: Database, start_alone: Callable[..., Any], tmp_path: Path
) -> Scene:
    """A scene on a Kafka of one broker that no other test uses meanwhile."""
    return Scene(
        start_writer=start_alone,
        bootstrap=breakable_kafka.bootstrap,
        dsn=database.dsn,
        gateway="",
        folder=tmp_path,
    )


@pytest.fixture
def two(inline: Scene) -> Two:
    """A scene's topic, and a second topic."""
    return Two(inline)


@pytest.fixture
def bug(monkeypatch: pytest.MonkeyPatch) -> Bug:
    """Unexpected errors in the steps of inline writers."""
    return Bug(monkeypatch)
