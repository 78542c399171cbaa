"""Single events share produce requests: all queues are sent together, and at once after a pause."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.producer.sender import Sender

from services.ingest.send.byte_budget import ByteBudget
from services.ingest.send.kafka_sink import KafkaSink
from services.ingest.send.partition_queue import BatchOptions
from services.ingest.sink import Receipt, SendResult
from shared import wire
from shared.partitioner import partition_of
from shared.settings import KafkaSettings
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.ingest import record

pytestmark = pytest.mark.anyio

_LINGER = 0.25
#: So long that whoever waits for it fails.
_FOR_EVER = 3600.0


class Sending:
    """A sink whose produce requests are counted, and the bytes of its batches."""

    def __init__(self, bootstrap: str, options: BatchOptions) -> None:
        self.requests = 0
        self.sizes: list[int] = []
        self.sink = KafkaSink(
            KafkaSettings(bootstrap=bootstrap),
            ByteBudget(2**26),
            deadline_seconds=30,
            stuck_producer_seconds=45,
            options=options,
        )

    async def send(self, topic: str, key: str, value: bytes = b"{}") -> SendResult:
        (sent,) = await self.sink.send([record(topic, key, value)])
        return sent


Start = Callable[[BatchOptions], Any]


@pytest.fixture
async def start(kafka: HasBootstrap, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    send = Sender._send_produce_req
    async with AsyncExitStack() as stack:

        async def started(options: BatchOptions) -> Sending:
            sending = Sending(kafka.bootstrap, options)

            async def noted(sender: Any, node: int, batches: dict[TopicPartition, Any]) -> None:
                sending.requests += 1
                sending.sizes += [len(batch.get_data_buffer()) for batch in batches.values()]
                await send(sender, node, batches)

            monkeypatch.setattr(Sender, "_send_produce_req", noted)
            await sending.sink.start()
            stack.push_async_callback(sending.sink.stop, 1)
            return sending

        yield started


def new_topics(count: int) -> list[str]:
    return [wire.topic_of(f"departs_{secrets.token_hex(4)}_{n}") for n in range(count)]


@pytest.mark.parametrize("names", [1, 12])
async def test_singles_at_a_pace_share_produce_requests(start: Start, names: int) -> None:
    sending = await start(BatchOptions(linger_seconds=_LINGER))
    topics = new_topics(names)
    await asyncio.gather(*(sending.send(topic, "first") for topic in topics))
    sending.requests = 0
    began = time.monotonic()
    sent = []
    for n in range(400):
        sent.append(asyncio.create_task(sending.send(topics[n % names], f"key-{n}")))
        await asyncio.sleep(0.002)
    outcomes = await asyncio.gather(*sent)
    departures = (time.monotonic() - began) / _LINGER + 2

    assert all(isinstance(outcome, Receipt) for outcome in outcomes)
    assert sending.requests <= departures
    assert departures < 400  # on any machine on which this says something


async def test_event_after_a_pause_is_sent_without_waiting_for_the_linger_time(start: Start) -> None:
    sending = await start(BatchOptions(linger_seconds=_FOR_EVER))

    assert isinstance(await sending.send(*new_topics(1), "alone"), Receipt)


async def test_a_full_batch_leaves_at_once_and_none_is_larger_than_its_limit(start: Start) -> None:
    sending = await start(BatchOptions(linger_seconds=_FOR_EVER))
    (topic,) = new_topics(1)
    await sending.send(topic, "same")
    waiting = [asyncio.create_task(sending.send(topic, "same", b"x" * 200_000)) for _ in range(5)]
    done, last = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    while len(done) < 4:  # two in each of two batches; the fifth is not full and waits
        more, last = await asyncio.wait(last, return_when=asyncio.FIRST_COMPLETED)
        done |= more

    assert [task.result().offset for task in waiting[:4]] == [1, 2, 3, 4]
    assert len(last) == 1
    assert max(sending.sizes) <= 512 * 1024


@pytest.mark.parametrize("compression", ["gzip", "lz4", "zstd"])
async def test_compressed_batches_are_read_as_they_were_sent(
    start: Start, kafka: HasBootstrap, compression: Any
) -> None:
    sending = await start(BatchOptions(compression=compression))
    (topic,) = new_topics(1)
    values = [b'{"n":%d,"text":"%s"}' % (n, b"again and " * 500) for n in range(20)]
    outcomes = await sending.sink.send([record(topic, "same", value) for value in values])

    assert all(isinstance(outcome, Receipt) for outcome in outcomes)
    assert sum(sending.sizes) < sum(map(len, values)) / 4
    assert await _values(kafka.bootstrap, topic, partition_of(b"same", 2)) == values


async def _values(bootstrap: str, topic: str, partition: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        found: list[bytes] = []
        while len(found) < end:
            batches = await consumer.getmany(timeout_ms=1000)
            found += [message.value for batch in batches.values() for message in batch]
        return found
    finally:
        await consumer.stop()
