"""Syslog over TLS: a handshake that is never finished has a place and a time, as any connection has."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from shared.tls import client_context
from stack.ports import free_port
from tests.fixtures.authority import Authority, left
from tests.fixtures.ingest import until
from tests.unit.ingest.conftest import Rig, counted

pytestmark = pytest.mark.anyio

PATIENT = 40
MANY, OTHER = "127.0.0.2", "127.0.0.3"

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}  # as the gateway runs


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secured(start: Callable[..., Any], authority: Authority) -> Callable[..., Awaitable[Rig]]:
    async def begin(**settings: Any) -> Rig:
        shown = authority.issue("syslog")
        rig: Rig = await start(
            syslog_tls_port=free_port(), tls_cert_file=shown.cert, tls_key_file=shown.key, **settings
        )
        return rig

    return begin


@pytest.fixture
async def connect(authority: Authority) -> AsyncIterator[Callable[..., Awaitable[Stream]]]:
    """Connect from an address; a `silent` client never begins the handshake."""
    writers: list[asyncio.StreamWriter] = []

    async def connected(rig: Rig, address: str, *, silent: bool = False) -> Stream:
        context = None if silent else client_context(authority.ca, None, None)
        port = rig.gateway.settings.syslog_tls_port
        stream = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0), ssl=context)
        writers.append(stream[1])
        return stream

    yield connected
    for writer in writers:
        await left(writer)


def deaf(rig: Rig, authority: Authority) -> ssl.SSLSocket:
    """A client that reads nothing after its handshake, so it confirms no end."""
    port = rig.gateway.settings.syslog_tls_port
    cleartext = socket.create_connection(("127.0.0.1", port), PATIENT, source_address=(MANY, 0))
    context = client_context(authority.ca, None, None)
    return context.wrap_socket(cleartext, server_hostname="127.0.0.1")


def files(rig: Rig) -> int:
    """How many connections of that port this process still has open."""
    port, ours = rig.gateway.settings.syslog_tls_port, psutil.Process().net_connections("tcp")
    return sum(each.laddr.port == port and bool(each.raddr) for each in ours)


def held_by(rig: Rig) -> int:
    return len(rig.syslog._connections.all)


async def test_a_handshake_has_a_place(secured: Any, connect: Any) -> None:
    rig = await secured(syslog_connections=3, read_seconds=300)
    before = counted("tcp", "refused")
    for _ in range(6):
        await connect(rig, MANY, silent=True)
    await until(lambda: counted("tcp", "refused") == before + 3, PATIENT)
    assert held_by(rig) == 3

    _, writer = await connect(rig, OTHER)
    writer.write(b"<13>modest\n")
    await until(lambda: rig.messages == ["modest"], PATIENT)
    assert held_by(rig) == 3


async def test_a_handshake_has_its_time(secured: Any, connect: Any) -> None:
    rig = await secured(read_seconds=0.2)
    reader, _ = await connect(rig, MANY, silent=True)
    async with asyncio.timeout(PATIENT):
        assert await reader.read() == b""
    await until(lambda: not held_by(rig), PATIENT)


async def test_a_handshake_that_is_broken_off_has_no_place(secured: Any, connect: Any) -> None:
    rig = await secured()
    _, leaving = await connect(rig, MANY, silent=True)
    await until(lambda: held_by(rig) == 1, PATIENT)
    await left(leaving)
    await until(lambda: not held_by(rig), PATIENT)
    reader, cleartext = await connect(rig, MANY, silent=True)
    cleartext.write(b"<13>in the clear\n")
    async with asyncio.timeout(PATIENT):
        await reader.read()
    await until(lambda: not held_by(rig), PATIENT)
    assert rig.messages == []


async def test_connection_evicted_during_its_handshake_closes_its_file_descriptor(
    secured: Any, connect: Any, authority: Authority
) -> None:
    rig = await secured(syslog_connections=2, read_seconds=300)
    with ExitStack() as crowd:
        for _ in range(2):
            crowd.enter_context(await asyncio.to_thread(deaf, rig, authority))
        await until(lambda: files(rig) == 2, PATIENT)
        _, writer = await connect(rig, OTHER)
        writer.write(b"<13>modest\n")
        await until(lambda: rig.messages == ["modest"], PATIENT)
        await until(lambda: files(rig) == 2, PATIENT)


async def test_idle_connection_is_closed_cleanly_and_its_last_line_is_delivered(
    secured: Any, connect: Any
) -> None:
    rig = await secured(syslog_idle_seconds=0.2)
    reader, writer = await connect(rig, MANY)
    writer.write(b"<13>its last line")
    async with asyncio.timeout(PATIENT):
        assert await reader.read() == b""
    assert rig.messages == ["its last line"]
    await until(lambda: not held_by(rig) and not files(rig), PATIENT)
