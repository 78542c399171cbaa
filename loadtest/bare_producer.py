"""The gateway's limit: an asyncio aiokafka producer fed from memory, same bytes, headers and acks.

Run as a process of its own: ``python -m loadtest.bare_producer BOOTSTRAP TOPIC BATCH
IN_FLIGHT SECONDS`` prints one JSON line: events, and the CPU seconds of this process.
"""

import asyncio
import json
import resource
import sys
import time
from collections import deque

import uvloop
from aiokafka import AIOKafkaProducer

from loadtest.events import event
from shared import wire
from shared.partitioner import partition_of

_HEADERS = [
    (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES),
    (wire.HEADER_RECEIVED_AT, b"2026-11-21T08:00:00.000000+00:00"),
    (wire.HEADER_PRODUCER, b"anonymous"),
]
_EVENTS = 5000


async def run(bootstrap: str, topic: str, batch: int, in_flight: int, seconds: float) -> dict[str, float]:
    """Produce for `seconds`; one event at a time per sender, or prepared batches."""
    events = [(b"bench-%08d" % n, event(n, "bench")) for n in range(_EVENTS)]
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, max_batch_size=512 * 1024
    )
    await producer.start()
    partitions = len(await producer.partitions_for(topic))
    sent = 0
    before = _cpu()
    until = time.perf_counter() + seconds

    async def singles(first: int) -> None:
        nonlocal sent
        index = first
        while time.perf_counter() < until:
            index = (index + 1) % _EVENTS
            key, value = events[index]
            partition = partition_of(key, partitions)
            await producer.send_and_wait(topic, value, key, partition, headers=_HEADERS)
            sent += 1

    async def batches(index: int) -> None:
        # One sender: aiokafka's add_batch times out when several wait for one partition.
        nonlocal sent
        outstanding: deque[asyncio.Future[object]] = deque()
        while time.perf_counter() < until:
            builders = [producer.create_batch() for _ in range(partitions)]
            for _ in range(batch):
                index = (index + 1) % _EVENTS
                key, value = events[index]
                builder = builders[partition_of(key, partitions)]
                builder.append(timestamp=None, key=key, value=value, headers=_HEADERS)
            for partition, builder in enumerate(builders):
                outstanding.append(await producer.send_batch(builder, topic, partition=partition))
            while len(outstanding) > in_flight:
                await outstanding.popleft()
            sent += batch
        await asyncio.gather(*outstanding)

    senders = [singles(n * 7) for n in range(in_flight)] if batch == 1 else [batches(0)]
    await asyncio.gather(*senders)
    spent = _cpu() - before
    await producer.stop()
    return {"events": sent, "cpu": spent}


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Read the arguments, run, print."""
    bootstrap, topic, batch, in_flight, seconds = sys.argv[1:]
    print(json.dumps(uvloop.run(run(bootstrap, topic, int(batch), int(in_flight), float(seconds)))))


if __name__ == "__main__":
    main()
