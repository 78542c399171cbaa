"""The gateway and the writer work with exactly the Kafka rights that docs/tls.md lists."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from services.ingest.send.byte_budget import ByteBudget
from services.ingest.send.kafka_sink import KafkaSink
from services.ingest.sink import Receipt
from services.writer.kafka.cluster import Cluster
from shared import wire
from shared.errors import TOPIC_MISSING, OnrampError
from shared.kafka_read.offsets import Partition
from shared.settings import KafkaSettings
from tests.fixtures.closed_connections import leave_taken
from tests.fixtures.fix_postgres import Database
from tests.fixtures.fix_tls import Secured
from tests.fixtures.ingest import record
from tests.fixtures.inline import Inline, _fields_of, start_inline
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import Kept, event, eventually, landed, make_topics, produce, records

pytestmark = pytest.mark.anyio
_PREFIX = "events.lean_"


def granted(
    secured: Secured, folder: Path, *rights: tuple[ResourceType, str, tuple[AclOperation, ...]]
) -> tuple[str, Path]:
    """A user who may do these on what begins so, and where his password is."""
    name, file = f"lean_{secrets.token_hex(4)}", folder / "password"
    file.write_text(secrets.token_hex(8))
    secured.user(name, file.read_text())
    acls = [
        AclBinding(
            kind,
            prefix,
            ResourcePatternType.PREFIXED,
            f"User:{name}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for kind, prefix, operations in rights
        for operation in operations
    ]
    admin = secured.admin()
    for future in admin.create_acls(acls).values():
        future.result(60)
    return name, file


@pytest.fixture(scope="module")
def lean(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A user who may WRITE and DESCRIBE."""
    of_gateway = (ResourceType.TOPIC, _PREFIX, (AclOperation.WRITE, AclOperation.DESCRIBE))
    return granted(secured, tmp_path_factory.mktemp("lean"), of_gateway)


@pytest.fixture
async def start(secured: Secured, lean: tuple[str, Path]) -> AsyncIterator[Callable[..., KafkaSink]]:
    started: list[KafkaSink] = []

    def make(*, create_topics: bool) -> KafkaSink:
        settings = KafkaSettings(
            bootstrap=secured.kafka.bootstrap_of("SASL"),
            create_topics=create_topics,
            security_protocol="SASL_SSL",
            username=lean[0],
            password_file=lean[1],
            ca_file=secured.authority.ca,
        )
        started.append(KafkaSink(settings, ByteBudget(2**20), deadline_seconds=60, stuck_producer_seconds=90))
        return started[-1]

    async with leave_taken():
        yield make
        for sink in started:
            await sink.stop(within=1)


async def test_event_of_an_existing_topic_is_written_while_topic_creation_is_off(
    secured: Secured, start: Callable[..., KafkaSink]
) -> None:
    topic = f"{_PREFIX}{secrets.token_hex(4)}"
    make_topics(secured.kafka.bootstrap, topic)
    sink = start(create_topics=False)
    await sink.start()
    (outcome,) = await sink.send([record(topic, "first")])
    assert isinstance(outcome, Receipt), outcome


async def test_event_of_a_missing_topic_is_refused_as_topic_missing_while_creation_is_off(
    start: Callable[..., KafkaSink],
) -> None:
    sink = start(create_topics=False)
    await sink.start()
    (outcome,) = await sink.send([record(f"{_PREFIX}{secrets.token_hex(4)}", "first")])
    assert isinstance(outcome, OnrampError)
    assert outcome.fault is TOPIC_MISSING


async def test_gateway_with_topic_creation_on_and_without_its_rights_fails_with_authorization(
    secured: Secured, start: Callable[..., KafkaSink]
) -> None:
    topic = f"{_PREFIX}{secrets.token_hex(4)}"
    make_topics(secured.kafka.bootstrap, topic)
    sink = start(create_topics=True)
    await sink.start()
    (outcome,) = await sink.send([record(topic, "first")])
    assert isinstance(outcome, OnrampError)
    assert "AuthorizationFailed" in outcome.detail


def _documented(topic: str) -> Iterator[tuple[ResourceType, str, tuple[AclOperation, ...]]]:
    """The writer's rights as docs/tls.md has them, for one topic of events."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "tls.md").read_text("utf-8")
    kinds = {"topics": ResourceType.TOPIC, "group": ResourceType.GROUP}
    for kind, name, rights in re.findall(
        r"^\| (topics|group) `([^`]+)`[^|]*\|[^|]*\|([^|]+)\|$", page, re.MULTILINE
    ):
        operations = tuple(AclOperation[right] for right in re.findall(r"`(\w+)`", rights))
        yield kinds[kind], topic if name == "events.*" else name.rstrip("*"), operations


async def _trim(secured: Secured, settings: KafkaSettings) -> None:
    """Delete a record of nobody's, as the writer deletes what has drained."""
    produce(secured.kafka.bootstrap, wire.SYSTEM_ERRORS, [b"nobody's"])
    [last] = [r for r in _of(secured, wire.SYSTEM_ERRORS) if r.value == b"nobody's"]
    positions = await Cluster(settings, "none").start()
    try:
        await positions.assign([Partition(wire.SYSTEM_ERRORS, n) for n in range(2)])
        await positions.delete_below(wire.SYSTEM_ERRORS, {0: last.offset + 1})
        assert last not in _of(secured, wire.SYSTEM_ERRORS)
    finally:
        await positions.stop()


def test_a_writer_lands_parks_and_trims_with_the_documented_rights(
    secured: Secured, database: Database, tmp_path: Path
) -> None:
    door, running = secured.kafka.bootstrap_of("SASL"), list[Inline]()

    def start(_: str, dsn: str, settings: dict[str, str], *, wait: bool = True) -> Inline:
        return start_inline(running, door, dsn, settings | env, wait=wait)

    scene = Scene(
        start_writer=start, bootstrap=secured.kafka.bootstrap, dsn=database.dsn, gateway="", folder=tmp_path
    )  # type: ignore[arg-type]
    try:
        env = secured.env("SASL")  # Who may do everything makes the topics.
        scene.writer().stop()
        scene.produce(event("good", scene.name), b"no json")
        name, password = granted(secured, tmp_path, *_documented(scene.topic))
        env = secured.env("SASL", username=name, password_file=password)
        env["ONRAMP_KAFKA_CREATE_TOPICS"] = "false"
        writer = scene.writer(wait=False)
        eventually(lambda: landed(database.dsn, scene.name) == 1)
        eventually(lambda: scene.topic in {r.error["topic"] for r in _of(secured, wire.USER_ERRORS)})
        assert writer.trouble == "None"
    finally:
        for each in running:
            each.stop()
    asyncio.run(_trim(secured, KafkaSettings(bootstrap=door, **_fields_of(env, "ONRAMP_KAFKA_"))))


def _of(secured: Secured, topic: str) -> list[Kept]:
    return records(secured.kafka.bootstrap, topic)
