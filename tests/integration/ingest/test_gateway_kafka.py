"""The gateway as a process on a real broker: outages, shutdown, new topics."""

import asyncio
import os
import re
import secrets
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from stack import services
from stack.kafka import Kafka
from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_stack import StartGateway
from tests.fixtures.ingest import JSON, body, envelope, one, until
from tests.fixtures.running_part import started

pytestmark = pytest.mark.anyio

#: Far below the client's patience: a request that Kafka does not answer is answered by its deadline alone.
QUICK = {
    "ONRAMP_INGEST_DEADLINE_SECONDS": "2",
    "ONRAMP_INGEST_STUCK_PRODUCER_SECONDS": "3",
    "ONRAMP_INGEST_GRACE_SECONDS": "9",
}
#: Long enough for a busy machine to do what must happen before a deadline.
LONG = {
    "ONRAMP_INGEST_DEADLINE_SECONDS": "60",
    "ONRAMP_INGEST_STUCK_PRODUCER_SECONDS": "90",
    "ONRAMP_INGEST_GRACE_SECONDS": "70",
}


def new_name() -> str:
    return f"event_{secrets.token_hex(4)}"


async def post(client: httpx2.AsyncClient, service: Service, content: bytes) -> httpx2.Response:
    return await client.post(f"{service.url}/v1/events", content=content, headers=JSON)


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def quick_gateway(module_kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A gateway with short deadlines on the module's Kafka: each test leaves it ready."""
    log = tmp_path_factory.mktemp("gateway") / "gateway.log"
    with started(services.gateway(bootstrap=module_kafka.bootstrap, log=log, env=QUICK)) as service:
        yield service


@asynccontextmanager
async def deaf(kafka: Kafka) -> AsyncIterator[None]:
    """Make the broker deaf for the block."""

    def stopped() -> bool:
        threads = Path(f"/proc/{kafka.pid}/task").glob("*/stat")
        return all(thread.read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)

    os.kill(kafka.pid, signal.SIGSTOP)
    try:
        await until(stopped)  # the signal only asks: on a busy machine its threads run on for a while
        yield
    finally:
        os.kill(kafka.pid, signal.SIGCONT)


async def until_accepted(client: httpx2.AsyncClient, service: Service, content: bytes) -> None:
    async def accepted() -> bool:
        return (await post(client, service, content)).status_code == 202

    await until(accepted)


async def values(bootstrap: str, topic: str) -> list[bytes]:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        ends = await consumer.end_offsets(consumer.assignment())
        found: list[bytes] = []
        while len(found) < sum(ends.values()):
            batches = await consumer.getmany(timeout_ms=1000)
            found += [message.value for batch in batches.values() for message in batch]
        return found
    finally:
        await consumer.stop()


async def test_an_accepted_event_is_on_kafka_byte_for_byte(
    gateway: Service, kafka: HasBootstrap, client: httpx2.AsyncClient
) -> None:
    name = new_name()
    value = b'{ "payload":{"b":1.10},"event_name":"%s",' % name.encode()
    value += b'"metadata":{"version":"1","id":"x","timestamp":"2026-11-21T08:00:00Z"}\n}'
    answer = await post(client, gateway, b" " + value + b"\n")

    assert answer.status_code == 202
    assert await values(kafka.bootstrap, f"events.{name}") == [value]


async def test_new_names_under_concurrency_get_one_topic_with_our_settings(
    kafka: HasBootstrap, start_gateway: StartGateway, client: httpx2.AsyncClient
) -> None:
    service = start_gateway(kafka.bootstrap, {"ONRAMP_KAFKA_PARTITIONS": "3"})
    name = new_name()
    posts = [post(client, service, one(f"id-{n}", name)) for n in range(50)]
    answers = await asyncio.gather(*posts)

    assert {answer.status_code for answer in answers} == {202}
    assert {answer.json()["receipt"]["partition"] for answer in answers} == {0, 1, 2}
    assert len(await values(kafka.bootstrap, f"events.{name}")) == 50


@pytest.fixture
async def admin(kafka: HasBootstrap) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    yield admin
    await admin.close()


async def test_a_topic_that_exists_is_used_as_it_is(
    gateway: Service, admin: AIOKafkaAdminClient, client: httpx2.AsyncClient
) -> None:
    name = new_name()
    await admin.create_topics([NewTopic(f"events.{name}", num_partitions=1, replication_factor=1)])
    answer = await post(client, gateway, one(name=name))

    assert answer.status_code == 202
    assert answer.json()["receipt"]["partition"] == 0


async def test_a_topic_that_would_lose_events_is_refused(
    gateway: Service, admin: AIOKafkaAdminClient, client: httpx2.AsyncClient
) -> None:
    name = new_name()
    compacted = {"cleanup.policy": "compact"}
    await admin.create_topics([NewTopic(f"events.{name}", 1, 1, topic_configs=compacted)])
    answer = await post(client, gateway, one(name=name))

    assert answer.status_code == 503
    assert answer.json()["type"] == "/errors/topic_unsafe"
    assert answer.json()["accepted"] is False


async def test_a_promised_number_of_replicas_is_set_on_new_topics(
    gateway: Service, admin: AIOKafkaAdminClient, client: httpx2.AsyncClient
) -> None:
    name = new_name()
    await post(client, gateway, one(name=name))
    topic = ConfigResource(ConfigResourceType.TOPIC, f"events.{name}")
    (answer,) = await admin.describe_configs([topic])

    explicit = {entry[0]: entry[1] for entry in answer.resources[0][4] if entry[3] == 1}
    assert explicit["min.insync.replicas"] == "1"


async def test_an_event_too_large_for_the_topic_is_a_413_and_harms_only_itself(
    gateway: Service, admin: AIOKafkaAdminClient, client: httpx2.AsyncClient
) -> None:
    name = new_name()
    small = {"max.message.bytes": "20000"}
    await admin.create_topics([NewTopic(f"events.{name}", 1, 1, topic_configs=small)])
    batch = [envelope(f"id-{n}", name, text="x" * (30_000 if n == 1 else 9_000)) for n in range(6)]
    answer = await post(client, gateway, body(batch))

    assert answer.status_code == 207
    assert [each["status"] for each in answer.json()["results"]] == [202, 413, 202, 202, 202, 202]
    # Kafka was not asked: a batch that it refuses costs the producer, and others what they have in flight.
    said = gateway.log.read_text("utf-8").splitlines()
    assert [line for line in said if "replacing the producer" in line and name in line] == []


async def test_a_limit_lowered_behind_our_back_is_a_413_and_then_known(
    gateway: Service, admin: AIOKafkaAdminClient, client: httpx2.AsyncClient
) -> None:
    name = new_name()
    await post(client, gateway, one("first", name))
    topic = ConfigResource(ConfigResourceType.TOPIC, f"events.{name}", {"max.message.bytes": "20000"})
    await admin.alter_configs([topic])
    large = await post(client, gateway, one("large", name, text="x" * 30_000))
    small = await post(client, gateway, one("small", name))

    assert large.status_code == 413
    assert small.status_code == 202


async def test_kafka_down_is_a_503_within_the_deadline_and_heals_by_itself(
    module_kafka: Kafka, quick_gateway: Service, client: httpx2.AsyncClient
) -> None:
    service, name = quick_gateway, new_name()
    assert (await post(client, service, one("before", name))).status_code == 202

    module_kafka.kill()
    posts = [post(client, service, one(f"during-{n}", name if n % 2 else new_name())) for n in range(20)]
    answers = await asyncio.gather(*posts)
    assert {answer.status_code for answer in answers} == {503}
    assert {"retry-after" in answer.headers for answer in answers} == {True}
    assert {answer.json()["accepted"] for answer in answers} <= {None, False}
    assert not service.is_ready()

    module_kafka.start()
    module_kafka.wait_ready()
    await until_accepted(client, service, one("after", name))
    service.wait_ready()
    service.check()


@pytest.mark.full
async def test_without_enough_replicas_nothing_is_accepted(
    tmp_path: Path, start_gateway: StartGateway, client: httpx2.AsyncClient
) -> None:
    with started(Kafka(tmp_path / "kafka", brokers=3, heap_mb=384)) as cluster:
        promise = {"ONRAMP_KAFKA_REPLICATION": "3", "ONRAMP_KAFKA_MIN_INSYNC": "2"}
        service = start_gateway(cluster.bootstrap, QUICK | promise)
        name = new_name()
        await until_accepted(client, service, one("before", name))

        cluster.kill(1)
        cluster.kill(2)
        posts = [post(client, service, one(f"during-{n}", name)) for n in range(20)]
        answers = await asyncio.gather(*posts)
        assert {answer.status_code for answer in answers} == {503}
        await until(lambda: not service.is_ready())

        for child in cluster.children[1:]:
            child.start()
        cluster.wait_ready()
        await until_accepted(client, service, one("after", name))


async def test_a_deaf_broker_leaves_the_outcome_unknown_and_wedges_nothing(
    module_kafka: Kafka, quick_gateway: Service, client: httpx2.AsyncClient
) -> None:
    service, name = quick_gateway, new_name()
    lines = service.log.read_text().count("replacing the producer")
    assert (await post(client, service, one("before", name))).status_code == 202

    async with deaf(module_kafka):
        answer = await post(client, service, one("during", name))
        assert answer.status_code == 503
        assert answer.json()["type"] == "/errors/kafka_unavailable"
        assert answer.json()["accepted"] is None
        # Long enough for the producer to be given up and replaced.
        await until(lambda: service.log.read_text().count("replacing the producer") > lines)

    await until_accepted(client, service, one("after", name))
    service.wait_ready()
    found = await values(module_kafka.bootstrap, f"events.{name}")
    assert found[-1] == one("after", name) or one("after", name) in found


async def test_sigterm_answers_what_was_taken_and_refuses_the_rest(
    module_kafka: Kafka, start_gateway: StartGateway, client: httpx2.AsyncClient
) -> None:
    service = start_gateway(module_kafka.bootstrap, LONG)
    name = new_name()
    assert (await post(client, service, one("before", name))).status_code == 202

    async with deaf(module_kafka):
        taken = await posted(client, service, name, 10)
        os.kill(service.pid, signal.SIGTERM)
        await until(lambda: refuses(service))

    answers = await asyncio.gather(*taken)
    assert {answer.status_code for answer in answers} == {202}
    await until(lambda: not service.child.running)
    assert service.child.exit_code == 0
    assert len(await values(module_kafka.bootstrap, f"events.{name}")) == 11


async def posted(
    client: httpx2.AsyncClient, service: Service, name: str, events: int
) -> list[asyncio.Task[httpx2.Response]]:
    """Post events; return when the gateway has all of them, or has answered them."""
    contents = [one(f"taken-{n}", name, text="x" * 10_000) for n in range(events)]
    tasks = [asyncio.create_task(post(client, service, content)) for content in contents]

    async def are_held() -> bool:  # as the request's body, and as Kafka's record
        text = (await client.get(f"{service.url}/metrics")).text
        (held,) = re.findall(r"^onramp_ingest_inflight_bytes(?:\{.*\})? (\S+)", text, re.MULTILINE)
        return float(held) >= 2 * sum(map(len, contents)) or all(task.done() for task in tasks)

    await until(are_held)
    return tasks


async def refuses(service: Service) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", service.port)
    except OSError:
        return True
    writer.close()
    return False


async def test_sigterm_with_kafka_down_exits_within_the_grace(
    module_kafka: Kafka, start_gateway: StartGateway, client: httpx2.AsyncClient
) -> None:
    service = start_gateway(module_kafka.bootstrap, QUICK)
    name = new_name()
    assert (await post(client, service, one("before", name))).status_code == 202
    async with deaf(module_kafka):
        taken = await posted(client, service, name, 5)
        os.kill(service.pid, signal.SIGTERM)
        answers = await asyncio.gather(*taken)
        await until(lambda: not service.child.running)

    assert {answer.status_code for answer in answers} == {503}
    assert service.child.exit_code == 0
