"""Connection limits: slow clients block no other address, and a client being answered is not closed."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import orjson
import pytest

from shared.tls import client_context
from tests.fixtures.authority import Authority
from tests.fixtures.fix_ingest import Serve, Served
from tests.fixtures.ingest import one, until
from tests.integration.ingest.test_bad_input import request
from tests.integration.ingest.test_pipelines import Held
from tests.integration.ingest.test_unread_answers import BAD, posted

pytestmark = pytest.mark.anyio

MANY, OTHER = "127.0.0.2", "127.0.0.3"
GOOD = request(one("good")).replace(b"Connection: close\r\n", b"")
SLOW = {
    "silent": b"",
    "half a header": b"POST /v1/events HTTP/1.1\r\nHo",
    "half a body": request(b"{", "Content-Length: 100", length=False),
    "half a body behind an answer": GOOD + request(b"{", "Content-Length: 100", length=False),
    "deaf": posted(BAD) * 3,
}


UVLOOP = True


@pytest.fixture(params=[False, UVLOOP], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


class Client:
    """One connection from a given address."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, raw: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self.writer.write(raw)
            await self.writer.drain()

    async def status(self) -> int:
        """The next answer's status, 0 at the end of the connection."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        self.head, self.body = head, await self.reader.readexactly(length)
        return int(head[9:12])

    async def asks(self) -> int:
        await self.say(GOOD)
        return await self.status()


Connect = Callable[..., Awaitable[Client]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    clients: list[Client] = []

    async def connected(served: Served, address: str, context: ssl.SSLContext | None = None) -> Client:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.bind((address, 0))
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", served.port))
        tls = {} if context is None else {"ssl": context, "server_hostname": "127.0.0.1"}
        clients.append(Client(*await asyncio.open_connection(sock=sock, limit=4096, **tls)))
        return clients[-1]

    yield connected
    for client in clients:
        client.writer.transport.abort()


def narrow(served: Served) -> Served:
    """Limit the kernel's buffer for data that a client does not read."""
    for listening in served.server.servers[0].sockets:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return served


def held_by(served: Served) -> int:
    return len(served.server.server_state.connections)


@pytest.mark.parametrize("words", SLOW.values(), ids=list(SLOW))
async def test_slow_clients_that_fill_the_connection_limit_block_no_other_address(
    serve: Serve, connect: Connect, words: bytes
) -> None:
    served = narrow(await serve(max_connections=10, max_connections_per_address=10, read_seconds=300))
    crowd = [await connect(served, MANY) for _ in range(30)]
    for client in crowd:
        await client.say(words)
    await until(lambda: held_by(served) <= 10)

    others = [await connect(served, OTHER) for _ in range(4)]
    assert [await other.asks() for other in others] == [202] * 4
    assert [await other.asks() for other in others] == [202] * 4  # and they keep their places
    assert held_by(served) <= 10


async def test_the_longest_idle_makes_room_for_the_next_of_its_address(
    serve: Serve, connect: Connect
) -> None:
    served = await serve(max_connections=3, max_connections_per_address=3)
    first, second, third = [await connect(served, MANY) for _ in range(3)]
    assert [await each.asks() for each in (first, second, third)] == [202] * 3
    await first.say(GOOD[:-4])
    await until(lambda: bool(served.server.server_state.tasks))
    assert await (await connect(served, MANY)).asks() == 202
    assert await second.status() == 0
    await first.say(GOOD[-4:])
    assert await first.status() == 202
    assert await third.asks() == 202


async def test_a_place_is_free_when_its_connection_is_gone(serve: Serve, connect: Connect) -> None:
    served = await serve()
    client = await connect(served, MANY)
    assert await client.asks() == 202
    assert served.connections.open == 1
    client.writer.transport.abort()
    await until(lambda: served.connections.open == 0)


async def test_request_closed_to_make_room_gets_503_and_is_not_produced(
    serve: Serve, connect: Connect
) -> None:
    served = await serve(max_connections=1, max_connections_per_address=1)
    half = await connect(served, MANY)
    await half.say(GOOD[:-4])
    await until(lambda: bool(served.server.server_state.tasks))
    assert await (await connect(served, MANY)).asks() == 202
    assert await half.status() == 503
    assert b"retry-after: " in half.head
    problem = orjson.loads(half.body)
    assert (problem["type"], problem["accepted"]) == ("/errors/too_many_connections", False)
    assert served.produced == 1


async def test_connection_being_answered_stays_open_and_a_new_connection_gets_503(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(await serve(max_connections=10), monkeypatch)
    busy = [await connect(held.served, MANY) for _ in range(9)]
    for client in busy:
        await client.say(GOOD)
    await until(lambda: held.served.produced == 9)

    refused = await connect(held.served, MANY)
    assert await refused.status() == 503
    assert b"connection: close" in refused.head
    assert await refused.status() == 0
    other = await connect(held.served, OTHER)  # the tenth place is not for that address
    await other.say(GOOD)
    held.let.set()
    assert [await each.status() for each in (*busy, other)] == [202] * 10


async def test_address_with_most_connections_is_refused_and_closes_no_connection_of_another(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = await serve(max_connections=5, max_connections_per_address=5)
    idle = [await connect(served, OTHER) for _ in range(2)]
    assert [await each.asks() for each in idle] == [202] * 2
    held = Held(served, monkeypatch)
    for _ in range(3):
        await (await connect(served, MANY)).say(GOOD)
    await until(lambda: served.produced == 5)

    assert await (await connect(served, MANY)).status() == 503
    held.let.set()
    assert [await each.asks() for each in idle] == [202] * 2


async def test_addresses_with_as_many_do_not_replace_each_other(serve: Serve, connect: Connect) -> None:
    served = await serve(max_connections=4, max_connections_per_address=4)
    mine = [await connect(served, MANY) for _ in range(2)]
    others = [await connect(served, OTHER) for _ in range(2)]
    assert [await each.asks() for each in (*mine, *others)] == [202] * 4
    assert await (await connect(served, OTHER)).asks() == 202
    assert [await each.asks() for each in mine] == [202] * 2


@pytest.mark.parametrize("anyio_backend", [UVLOOP], indirect=True)
async def test_a_handshake_has_a_place(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    shown = authority.issue("door")
    served = await serve(
        max_connections=10, read_seconds=300, tls_cert_file=shown.cert, tls_key_file=shown.key
    )
    for _ in range(30):
        await connect(served, MANY)
    await until(lambda: held_by(served) == 9)
    other = await connect(served, OTHER, client_context(authority.ca, None, None))
    assert await other.asks() == 202
    assert await other.asks() == 202
    assert held_by(served) <= 10


@pytest.mark.parametrize("anyio_backend", [UVLOOP], indirect=True)
async def test_a_handshake_has_its_time(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    shown = Authority(tmp_path).issue("door")
    served = await serve(read_seconds=0.2, tls_cert_file=shown.cert, tls_key_file=shown.key)
    silent = await connect(served, MANY)
    async with asyncio.timeout(90):
        assert await silent.status() == 0
    await until(lambda: not held_by(served) and not served.connections.open)


@pytest.mark.parametrize("anyio_backend", [UVLOOP], indirect=True)
async def test_a_handshake_that_is_broken_off_has_no_place(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    shown = Authority(tmp_path).issue("door")
    served = await serve(tls_cert_file=shown.cert, tls_key_file=shown.key)
    leaving = await connect(served, MANY)
    await until(lambda: served.connections.open == 1)
    leaving.writer.transport.abort()
    await until(lambda: served.connections.open == 0)
    await (await connect(served, MANY)).say(GOOD)  # no TLS
    await until(lambda: not held_by(served) and not served.connections.open)
