"""The contract of every sink, checked on the sink in memory and on the Kafka sink."""

import asyncio
import gc
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from services.ingest.send.byte_budget import ByteBudget
from services.ingest.send.kafka_sink import KafkaSink
from services.ingest.send.partition_queue import InFlightBatch, RequestSlice
from services.ingest.sink import MemorySink, Receipt, Record, Sink
from shared import wire
from shared.errors import KAFKA_UNREACHABLE, SHUTTING_DOWN, OnrampError
from shared.partitioner import partition_of
from shared.settings import KafkaSettings
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.ingest import record, until

pytestmark = pytest.mark.anyio

Read = Callable[[str], Awaitable[list[list[Record]]]]


@dataclass
class Rig:
    sink: Sink
    read: Read
    budget: ByteBudget


@pytest.fixture(params=["memory", "kafka"])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    budget = ByteBudget(2**28)
    if request.param == "memory":
        memory = MemorySink()
        yield Rig(memory, _reader_of_memory(memory), budget)
        return
    broker: HasBootstrap = request.getfixturevalue("kafka")
    sink = KafkaSink(
        KafkaSettings(bootstrap=broker.bootstrap), budget, deadline_seconds=10, stuck_producer_seconds=15
    )
    await sink.start()
    yield Rig(sink, _reader_of_kafka(broker.bootstrap), budget)
    await sink.stop(within=5)


def _reader_of_memory(sink: MemorySink) -> Read:
    async def read(topic: str) -> list[list[Record]]:
        return sink.topics[topic]

    return read


def _reader_of_kafka(bootstrap: str) -> Read:
    async def read(topic: str) -> list[list[Record]]:
        partitions: list[list[Record]] = [[], []]
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            places = [TopicPartition(topic, n) for n in range(2)]
            consumer.assign(places)
            ends = await consumer.end_offsets(places)
            async with asyncio.timeout(20):
                while any([await consumer.position(place) < ends[place] for place in places]):
                    for message in await _next(consumer):
                        partitions[message.partition].append(
                            Record(topic, message.key, message.value, list(message.headers))
                        )
        finally:
            await consumer.stop()
        return partitions

    async def _next(consumer: AIOKafkaConsumer) -> list:
        batches = await consumer.getmany(timeout_ms=1000)
        return [message for batch in batches.values() for message in batch]

    return read


def new_topic() -> str:
    return wire.topic_of(f"contract_{secrets.token_hex(4)}")


async def test_every_record_has_its_receipt_in_order(rig: Rig) -> None:
    topic = new_topic()
    records = [record(topic, f"key-{n}", b'{"n":%d}' % n) for n in range(500)]
    receipts = await rig.sink.send(records)

    stored = await rig.read(topic)
    assert len(receipts) == len(records)
    for sent, receipt in zip(records, receipts, strict=True):
        assert isinstance(receipt, Receipt)
        assert receipt.topic == topic
        assert receipt.partition == partition_of(sent.key, 2)
        assert receipt.offset is not None
        assert stored[receipt.partition][receipt.offset] == sent
    assert sum(map(len, stored)) == len(records)


async def test_equal_keys_keep_the_order_they_were_sent_in(rig: Rig) -> None:
    topic = new_topic()
    for n in range(0, 60, 3):
        await rig.sink.send([record(topic, "same", b"%d" % (n + i)) for i in range(3)])

    stored = await rig.read(topic)
    assert [int(r.value) for r in stored[partition_of(b"same", 2)]] == list(range(60))


async def test_many_requests_at_once_each_get_their_own_receipts(rig: Rig) -> None:
    topics = [new_topic() for _ in range(3)]

    async def request(n: int) -> list[Record]:
        return [record(topics[(n + i) % 3], f"{n}-{i}", b'{"r":%d,"i":%d}' % (n, i)) for i in range(7)]

    requests = [await request(n) for n in range(64)]
    answers = await asyncio.gather(*(rig.sink.send(each) for each in requests))

    stored = {topic: await rig.read(topic) for topic in topics}
    places = set()
    for sent, receipts in zip(requests, answers, strict=True):
        for each, receipt in zip(sent, receipts, strict=True):
            assert isinstance(receipt, Receipt)
            assert receipt.offset is not None
            assert stored[each.topic][receipt.partition][receipt.offset] == each
            places.add((receipt.topic, receipt.partition, receipt.offset))
    assert len(places) == 64 * 7


async def test_large_and_small_records_land_together(rig: Rig) -> None:
    topic = new_topic()
    records = [record(topic, "same", b"x" * size) for size in (10, 600_000, 20, 300_000, 300_000, 30)]
    receipts = await rig.sink.send(records)

    assert [r.offset for r in receipts if isinstance(r, Receipt)] == list(range(6))
    stored = await rig.read(topic)
    assert stored[partition_of(b"same", 2)] == records


async def test_nothing_is_held_after_the_answer(rig: Rig) -> None:
    topic = new_topic()  # one: to make a hundred takes longer than a slow machine's deadline
    outcomes = await rig.sink.send([record(topic, f"key-{n}", b"x" * 1000) for n in range(100)])

    assert all(isinstance(outcome, Receipt) for outcome in outcomes)
    assert rig.budget.used == 0


async def test_health_says_what_a_receipt_stands_on(rig: Rig) -> None:
    health = await rig.sink.health()

    assert health.reachable
    assert health.brokers == 1
    assert health.min_insync_replicas == 1


@pytest.fixture(params=["memory", "kafka"])
async def cut_off(request: pytest.FixtureRequest) -> AsyncIterator[Sink]:
    if request.param == "memory":
        memory = MemorySink()
        memory.down = True
        yield memory
        return
    sink = KafkaSink(
        KafkaSettings(bootstrap="127.0.0.1:1"),
        ByteBudget(2**20),
        deadline_seconds=1,
        stuck_producer_seconds=15,
    )
    await sink.start()
    yield sink
    await sink.stop(within=1)


async def test_stopping_answers_everybody_and_holds_nothing(kafka: HasBootstrap) -> None:
    budget = ByteBudget(2**28)
    settings = KafkaSettings(bootstrap=kafka.bootstrap)
    sink = KafkaSink(settings, budget, deadline_seconds=600, stuck_producer_seconds=900)
    await sink.start()
    topic = new_topic()
    await sink.send([record(topic, "first")])
    sending = [asyncio.create_task(sink.send([record(topic, f"{n}")])) for n in range(50)]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await sink.stop(within=0)
        outcomes = [outcome for each in await asyncio.gather(*sending) for outcome in each]

    assert len(outcomes) == 50
    assert budget.used == 0
    (late,) = await sink.send([record(topic, "late")])
    assert isinstance(late, OnrampError)
    assert late.fault is SHUTTING_DOWN


async def test_unreachable_sink_reports_the_fault_for_every_record(cut_off: Sink) -> None:
    async with asyncio.timeout(60):
        outcomes = await cut_off.send([record(new_topic(), str(n)) for n in range(3)])

    assert [o.fault for o in outcomes if isinstance(o, OnrampError)] == [KAFKA_UNREACHABLE] * 3
    assert not (await cut_off.health()).reachable


def batches() -> list[InFlightBatch]:
    return [each for each in gc.get_objects() if isinstance(each, InFlightBatch)]


async def test_sent_batches_are_freed_without_the_garbage_collector(kafka: HasBootstrap) -> None:
    sink = KafkaSink(
        KafkaSettings(bootstrap=kafka.bootstrap),
        ByteBudget(2**28),
        deadline_seconds=10,
        stuck_producer_seconds=15,
    )
    await sink.start()
    topic = f"events.freed_{secrets.token_hex(4)}"
    stuck = InFlightBatch(1000)
    try:
        await sink.send([record(topic, "first")])  # the topic is made, and a producer
        gc.collect()
        gc.disable()
        # A partition without a leader may keep the first request's slice for as long as a deadline.
        loop = asyncio.get_running_loop()
        sink._deadlines.append((loop.time() + 600, RequestSlice(stuck, 0, [0], loop.create_future())))
        for n in range(20):
            await sink.send([record(topic, f"{n}-{each}") for each in range(50)])
        # Its deadline's watch lets go of it at its next look.
        await until(lambda: batches() == [stuck])
    finally:
        gc.enable()
        await sink.stop(within=5)
