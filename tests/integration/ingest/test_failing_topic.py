"""A topic below its min ISR, or without a leader, does not delay healthy topics."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.producer.sender import Sender
from confluent_kafka.admin import AdminClient, NewTopic

from services.ingest.app import assemble
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.send.kafka_producer import ProducerInstance
from services.ingest.send.kafka_sink import KafkaSink
from services.ingest.send.second_producer import METADATA_PAUSE_SECONDS, SecondProducer
from services.ingest.settings import IngestSettings
from shared.registry.memory import MemoryRegistry
from shared.settings import KafkaSettings
from stack.kafka import Kafka
from tests.fixtures.ingest import JSON, one, until
from tests.fixtures.running_part import started

pytestmark = pytest.mark.anyio

DEADLINE = 6.0
WEDGED = 7.0
#: Brokers by their place; their ids count from 1.
_THIRD = 2
_PATIENCE = 120.0


@dataclass
class Seen:
    """The produce requests of each producer: the topics in each."""

    requests: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    #: How often a batch of the sick topic was found to have waited for long.
    long: int = 0
    #: How often each producer asked for metadata.
    questions: Counter[str] = field(default_factory=Counter)

    def of(self, client: str, topic: str) -> int:
        return sum(topic in topics for by, topics in self.requests if by == client)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    seen = Seen()
    send, still, ask = Sender._send_produce_req, SecondProducer.on_slow_batch, AIOKafkaClient._metadata_update

    async def noted(sender: Any, node: int, batches: dict[TopicPartition, Any]) -> None:
        seen.requests.append((sender.client._client_id, frozenset(tp.topic for tp in batches)))
        await send(sender, node, batches)

    def looked(second: SecondProducer, topic: str) -> None:
        seen.long += 1
        still(second, topic)

    async def asked(client: Any, *given: Any) -> Any:
        seen.questions[client._client_id] += 1
        return await ask(client, *given)

    monkeypatch.setattr(AIOKafkaClient, "_metadata_update", asked)
    monkeypatch.setattr(Sender, "_send_produce_req", noted)
    monkeypatch.setattr(SecondProducer, "on_slow_batch", looked)
    return seen


class Gateway:
    """A gateway in this process on three brokers, the first of which leads all topics."""

    def __init__(self, cluster: Kafka) -> None:
        self.cluster = cluster
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        kafka = KafkaSettings(bootstrap=cluster.bootstrap, replication=3, min_insync=2)
        self.sink = KafkaSink(
            kafka, ByteBudget(2**24), deadline_seconds=DEADLINE, stuck_producer_seconds=WEDGED
        )
        app = assemble(
            IngestSettings(),
            sink=self.sink,
            budget=ByteBudget(2**24),
            registry=MemoryRegistry(),
            allow_keyless=True,
            lifespan=lambda _: None,  # type: ignore[arg-type, return-value]
        )
        self.client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1")

    def make(self, name: str, min_insync: int, replicas: tuple[int, ...] = (1, 2, 3)) -> None:
        config = {"min.insync.replicas": str(min_insync)}
        topic = NewTopic(f"events.{name}", 1, replica_assignment=[[*replicas]], config=config)
        for future in self.admin.create_topics([topic]).values():
            future.result(30)

    def in_sync(self, name: str) -> int:
        topic = self.admin.list_topics(f"events.{name}", timeout=20).topics[f"events.{name}"]
        return len(topic.partitions[0].isrs)

    def leader(self, name: str) -> int | None:
        """The state of the first producer, which requests metadata at once."""
        client = self.first.client
        client.add_topic(f"events.{name}")  # it asks for all topics until it was told of one
        client.force_metadata_update()
        leader: int | None = client.cluster.leader_for_partition(TopicPartition(f"events.{name}", 0))
        return leader

    @property
    def first(self) -> Any:
        producer = self.sink._producers.live_producer()
        assert producer is not None
        return producer

    async def post(self, event_id: str, name: str) -> httpx2.Response:
        return await self.client.post("/v1/events", content=one(event_id, name), headers=JSON)

    async def accepts(self, event_id: str, name: str) -> None:
        answer = await self.post(event_id, name)
        assert answer.status_code == 202, answer.text

    async def on_kafka(self, name: str) -> Counter[str]:
        """How often each id is there."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.cluster.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            place = TopicPartition(f"events.{name}", 0)
            consumer.assign([place])
            end = (await consumer.end_offsets([place]))[place]
            found: Counter[str] = Counter()
            while await consumer.position(place) < end:
                batches = await consumer.getmany(timeout_ms=1000)
                found.update(message.key.decode() for batch in batches.values() for message in batch)
            return found
        finally:
            await consumer.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with started(Kafka(tmp_path_factory.mktemp("kafka"), brokers=3, heap_mb=384)) as cluster:
        yield cluster


@pytest.fixture
async def gateway(cluster: Kafka) -> AsyncIterator[Gateway]:
    gateway = Gateway(cluster)
    await gateway.sink.start()
    yield gateway
    await gateway.client.aclose()
    await gateway.sink.stop(within=1)


@pytest.mark.timeout(500)
async def test_a_topic_below_its_min_isr_harms_itself_alone(
    gateway: Gateway, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.make("sick", 3)
    gateway.make("well", 2)
    await gateway.accepts("before", "sick")
    await gateway.accepts("before", "well")
    first = gateway.sink._producers.live_producer()
    await until(
        lambda: gateway.sink._second_producers.live_producer() is not None, _PATIENCE
    )  # nobody moves to who is not there
    gateway.cluster.children[_THIRD].stop()
    await until(lambda: gateway.in_sync("sick") == 2, _PATIENCE)
    seen.requests.clear()

    ids = [f"sick-{n}" for n in range(5)]
    refused = [asyncio.create_task(gateway.post(each, "sick")) for each in ids]
    await until(lambda: seen.of("onramp-ingest-second", "events.sick") >= 3, _PATIENCE)
    knocked = seen.of("onramp-ingest", "events.sick")
    assert knocked
    for n in range(30):
        await gateway.accepts(f"during-{n}", "well")
    # Once it was refused, its batch no more came to the first producer: nobody found its pauses there.
    assert seen.of("onramp-ingest", "events.sick") == knocked
    assert seen.of("onramp-ingest-second", "events.well") == 0

    answers = [await each for each in refused]
    assert {answer.status_code for answer in answers} == {503}
    assert {"retry-after" in answer.headers for answer in answers} == {True}
    await until(lambda: seen.long > 0, _PATIENCE)  # longer than any healthy batch may take
    await gateway.accepts("after-long", "well")
    assert seen.of("onramp-ingest", "events.sick") == knocked

    gateway.cluster.children[_THIRD].start()
    await until(lambda: not gateway.sink._second.holds("events.sick", 0), _PATIENCE)
    for each in ids:
        await gateway.accepts(each, "sick")
    knocks = seen.of("onramp-ingest-second", "events.sick")
    await gateway.accepts("last", "sick")
    assert seen.of("onramp-ingest-second", "events.sick") == knocks
    assert gateway.sink._producers.live_producer() is first
    assert [each for each in caplog.messages if "replaced" in each] == []

    found = await gateway.on_kafka("sick")
    unknown = {each for each, answer in zip(ids, answers, strict=True) if answer.json()["accepted"] is None}
    assert unknown
    # A batch that was tried a hundred times is there once, beside what was sent again.
    assert found == Counter({"before", *ids, "last"}) + Counter(unknown)


@pytest.mark.full
@pytest.mark.timeout(500)
async def test_a_topic_without_a_leader_harms_itself_alone(
    gateway: Gateway, seen: Seen, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaderless = ProducerInstance.leaderless
    for name, replicas in {"lone": (3,), "lost": (3,), "near": (1, 2, 3)}.items():
        gateway.make(name, 2, replicas)
        await gateway.accepts("before", name)
    await until(lambda: gateway.sink._second_producers.live_producer() is not None, _PATIENCE)
    first, loop = gateway.first, asyncio.get_running_loop()
    gateway.cluster.children[_THIRD].stop()
    for name in ("lone", "lost"):
        await until(lambda name=name: gateway.leader(name) == -1, _PATIENCE)  # type: ignore[misc]

    seen.requests.clear()
    seen.questions.clear()
    began = loop.time()
    # As if the producer had it already when its leader was lost.
    monkeypatch.setattr(
        ProducerInstance,
        "leaderless",
        lambda self, *where: where[0] == "events.lone" and leaderless(self, *where),
    )
    given = asyncio.create_task(gateway.post("given", "lost"))
    await until(lambda: gateway.sink._second.holds("events.lost", 0), _PATIENCE)
    waiting = gateway.sink._queues["events.lone", 0]._waiting
    never = [f"never-{n}" for n in range(2)]
    refused = []
    for each in never:
        refused.append(asyncio.create_task(gateway.post(each, "lone")))
        # Nobody joins a batch that waits: it is given up with all of its events.
        await until(lambda: bool(waiting) and waiting[-1].builder.closed(), _PATIENCE)
        await gateway.accepts(f"during-{each}", "near")
    answers = [await each for each in (given, *refused)]
    assert [(each.status_code, each.json()["accepted"]) for each in answers] == [
        (503, None),
        (503, False),
        (503, False),
    ]
    assert {"retry-after" in each.headers for each in answers} == {True}

    await until(lambda: seen.long > 0, _PATIENCE)
    assert gateway.sink._second.holds("events.lost", 0)
    await gateway.accepts("after-long", "near")
    # However often it was looked: a pause before each question, and a few for other reasons.
    assert seen.questions["onramp-ingest"] <= 2 * (loop.time() - began) / METADATA_PAUSE_SECONDS + 20
    assert {topic for by, topics in seen.requests if by == "onramp-ingest" for topic in topics} == {
        "events.near"
    }
    assert seen.of("onramp-ingest-second", "events.lone") == 0
    assert gateway.first is first
    assert [each for each in caplog.messages if "replaced" in each] == []

    gateway.cluster.children[_THIRD].start()
    await until(lambda: not gateway.sink._second.holds("events.lost", 0), _PATIENCE)
    for name in ("lone", "lost"):
        await until(lambda name=name: gateway.leader(name) == 3, _PATIENCE)  # type: ignore[misc]
    for each in [*never, "last"]:
        await gateway.accepts(each, "lone")
    await gateway.accepts("last", "lost")
    assert gateway.first is first
    assert [each for each in caplog.messages if "replaced" in each] == []
    assert await gateway.on_kafka("lone") == Counter(["before", *never, "last"])
    assert await gateway.on_kafka("lost") == Counter(["before", "given", "last"])
