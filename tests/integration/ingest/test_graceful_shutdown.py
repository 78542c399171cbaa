"""Graceful shutdown: the balancer is informed while the gateway still serves; no request is refused."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
import pytest

from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_stack import StartGateway
from tests.fixtures.ingest import one, until

pytestmark = pytest.mark.anyio

PATIENT = 90
SECONDS = 1.0


class Client:
    """One connection, and its messages."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, *pieces: bytes) -> bytes:
        """Send `pieces`; return the head of the answer."""
        self._writer.writelines(pieces)
        async with asyncio.timeout(PATIENT):
            head = await self._reader.readuntil(b"\r\n\r\n")
            [size] = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            await self._reader.readexactly(int(size.split(b":")[1]))
        return head.lower()

    async def ends(self) -> bool:
        """Whether the other side closes."""
        async with asyncio.timeout(PATIENT):
            return await self._reader.read() == b""

    def say(self, piece: bytes) -> None:
        """Send a part of a request, which has no answer yet."""
        self._writer.write(piece)


@asynccontextmanager
async def connected(service: Service) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


def request(event_id: str) -> bytes:
    content = one(event_id, "leaving_event")
    head = b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(content) + content


async def is_leaving(service: Service) -> bool:
    async with connected(service) as probe:
        return b" 503 " in await probe.ask(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.full), 2])
async def test_gateway_after_sigterm_is_not_ready_and_still_answers_202_with_connection_close(
    kafka: HasBootstrap, start_gateway: StartGateway, workers: int
) -> None:
    drain = {"ONRAMP_INGEST_DRAIN_SECONDS": "600", "ONRAMP_INGEST_GRACE_SECONDS": "617"}
    service = start_gateway(kafka.bootstrap, drain | {"ONRAMP_INGEST_WORKERS": str(workers)})
    async with connected(service) as kept, connected(service) as slow:
        assert b"connection: close" not in await kept.ask(request("before"))
        whole = request("begun-before")
        slow.say(whole[:-10])
        # Ready is said by any worker; one that is asked to stop before it serves has nothing to leave.
        await until(lambda: service.log.read_text().count("startup complete") == workers, PATIENT)
        os.kill(service.pid, signal.SIGTERM)
        await until(lambda: service.log.read_text().count("the gateway drains") == workers, PATIENT)
        assert await is_leaving(service)
        await last(kept, request("kept-alive"))
        await last(slow, whole[-10:])
    async with connected(service) as new:
        await last(new, request("new"))
    for process in psutil.Process(service.pid).children(recursive=True) or [psutil.Process(service.pid)]:
        process.send_signal(signal.SIGINT)
    await until(lambda: not service.child.running, PATIENT)


async def last(client: Client, *pieces: bytes) -> None:
    """The answer to `pieces` is a 202, and the connection's last."""
    head = await client.ask(*pieces)
    assert b" 202 " in head
    assert b"connection: close" in head
    assert await client.ends()


async def test_when_the_time_is_over_it_stops_by_itself(
    kafka: HasBootstrap, start_gateway: StartGateway
) -> None:
    drain = {"ONRAMP_INGEST_DRAIN_SECONDS": str(SECONDS), "ONRAMP_INGEST_WORKERS": "2"}
    service = start_gateway(kafka.bootstrap, drain)
    workers = psutil.Process(service.pid).children(recursive=True)
    began = time.monotonic()
    os.kill(service.pid, signal.SIGTERM)
    # As a supervisor does that asks all processes of a service.
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    await until(lambda: not service.child.running, PATIENT)
    assert time.monotonic() - began >= SECONDS
    assert service.child.exit_code == 0
