"""Concurrent readiness probes share one request to Kafka."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from services.ingest.send.byte_budget import ByteBudget
from services.ingest.send.kafka_sink import KafkaSink
from shared.settings import KafkaSettings

pytestmark = pytest.mark.anyio

Asked = Callable[[], int]


@asynccontextmanager
async def silent() -> AsyncIterator[tuple[KafkaSink, Asked]]:
    """A sink on a broker that takes connections and says nothing, and how many it took."""
    taken: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: taken.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield (
        KafkaSink(
            KafkaSettings(bootstrap=f"127.0.0.1:{port}"),
            ByteBudget(1),
            deadline_seconds=10,
            stuck_producer_seconds=15,
        ),
        lambda: len(taken),
    )
    for writer in taken:
        writer.close()
    server.close()
    await server.wait_closed()


async def test_many_probes_ask_kafka_once() -> None:
    async with silent() as (sink, asked):
        await sink.health()
        alone = asked()
    async with silent() as (sink, asked):
        told = await asyncio.gather(*(sink.health() for _ in range(500)))
        together = asked()

    assert not any(each.reachable for each in told)
    assert together == alone > 0


async def test_cancelled_probe_does_not_cancel_the_other_probes() -> None:
    async with silent() as (sink, _):
        first = asyncio.create_task(sink.health())
        others = [asyncio.create_task(sink.health()) for _ in range(3)]
        await asyncio.sleep(0)
        first.cancel()

        assert not any(each.reachable for each in await asyncio.gather(*others))


async def test_a_sink_that_stops_asks_no_more() -> None:
    async with silent() as (sink, _):
        probe = asyncio.create_task(sink.health())
        await asyncio.sleep(0)
        await sink.stop(within=1)

        with pytest.raises(asyncio.CancelledError):
            await probe
