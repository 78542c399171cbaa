"""Clients that do not read their answer use little memory and are disconnected."""

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from services.ingest.asgi import Message
from shared import wire
from tests.fixtures.fix_ingest import Serve, Served
from tests.fixtures.ingest import one, until
from tests.integration.ingest.test_bad_input import request, status

pytestmark = pytest.mark.anyio

#: Few bytes on the wire, 6 KB inflated, 250 KB of answer.
BAD = gzip.compress(b"[" + b"{}," * 1_999 + b"{}]")
#: The same with 9 MB inflated.
WIDE = gzip.compress(b"[" + (b" " * 4500 + b"{},") * 1_999 + b"{}]")
#: An answer that is too small for the transport to complain.
SMALL = gzip.compress(b"[" + b"{}," * 99 + b"{}]")
ANSWER = 200_000
READ_SECONDS = 3.0


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


def posted(content: bytes, *headers: str) -> bytes:
    return request(content, "Content-Encoding: gzip", *headers).replace(b"Connection: close\r\n", b"", 1)


Deaf = Callable[[Served, bytes], Coroutine[Any, Any, socket.socket]]


@pytest.fixture
async def deaf() -> AsyncIterator[Deaf]:
    """Clients that write and never read."""
    clients: list[socket.socket] = []

    async def connect(served: Served, raw: bytes) -> socket.socket:
        client = socket.socket()
        clients.append(client)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", served.port))
        await loop.sock_sendall(client, raw)
        return client

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def serve_narrow(serve: Serve) -> Serve:
    """Gateways whose system takes little of what a client does not read."""

    async def start(**settings: Any) -> Served:
        served: Served = await serve(**settings)
        for listening in served.server.servers[0].sockets:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return served

    return start


def nobody(served: Served) -> bool:
    return not served.server.server_state.connections and not served.server.server_state.tasks


async def test_client_that_does_not_read_is_counted_in_the_budget_and_closed(
    serve_narrow: Serve, deaf: Deaf, caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve_narrow(read_seconds=READ_SECONDS)
    for _ in range(3):
        await deaf(served, posted(BAD) * 3)
    await until(lambda: served.budget.used > 3 * ANSWER)

    await until(lambda: nobody(served))
    assert served.budget.used == 0
    assert status(await served.raw(request(one("alive", wire.PROBE_EVENT)))) == 202
    assert not [each for each in caplog.records if each.name.startswith("uvicorn")]


async def test_client_that_does_not_read_holds_no_request_body_in_the_budget(
    serve_narrow: Serve, deaf: Deaf
) -> None:
    served = await serve_narrow(read_seconds=60)
    await deaf(served, posted(WIDE) * 2)
    await until(lambda: sum(c.flow.write_paused for c in served.server.server_state.connections) == 1)

    assert ANSWER < served.budget.used < 2 * ANSWER


async def test_request_whose_answer_exceeds_the_budget_gets_503_and_is_not_produced(
    serve_narrow: Serve, deaf: Deaf
) -> None:
    served = await serve_narrow(read_seconds=60, inflight_bytes=1_000_000)
    for _ in range(3):
        await deaf(served, posted(BAD))
    await until(lambda: served.budget.used > 3 * ANSWER)
    mixed = b"[" + b"{}," * 3_000 + one("a") + b"]"
    answer = await served.raw(posted(gzip.compress(mixed), "Connection: close"))

    assert status(answer) == 503
    assert b'"accepted":false' in answer
    assert served.produced == 0


@pytest.mark.parametrize(
    "raw",
    [
        posted(BAD) + b"not HTTP at all\r\n\r\n",
        posted(SMALL, "Connection: close"),
        posted(SMALL) + b"not HTTP at all\r\n\r\n",
        posted(SMALL),
    ],
    ids=["large", "the last answer", "a refusal", "after keep-alive"],
)
async def test_connection_with_an_unread_last_answer_is_closed_and_frees_the_budget(
    serve_narrow: Serve, deaf: Deaf, raw: bytes
) -> None:
    served = await serve_narrow(read_seconds=1)
    served.server.config.timeout_keep_alive = 1
    await deaf(served, raw)
    await until(lambda: served.server.server_state.total_requests > 0 or served.budget.used > 0)

    await until(lambda: nobody(served))
    assert served.budget.used == 0


async def test_connection_with_an_unread_refusal_of_invalid_http_is_closed(
    serve_narrow: Serve, deaf: Deaf
) -> None:
    served = await serve_narrow(read_seconds=1)
    client = await deaf(served, posted(SMALL))
    await until(lambda: served.server.server_state.total_requests == 1)
    await asyncio.get_running_loop().sock_sendall(client, b"not HTTP at all\r\n\r\n")

    await until(lambda: nobody(served))


async def test_an_answer_that_is_read_slowly_arrives_whole(serve: Serve) -> None:
    served = await serve(read_seconds=5)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1024)
    writer.write(posted(BAD, "Connection: close"))
    head = await reader.readuntil(b"\r\n\r\n")
    told = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    read = 0
    while piece := await reader.read(1000):
        read += len(piece)
    writer.close()

    assert read == told > ANSWER


async def test_the_body_is_given_back_before_the_answer_is_sent(serve: Serve) -> None:
    served = await serve()
    held: list[int] = []
    sizes: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": WIDE}

    async def send(message: Message) -> None:
        held.append(served.budget.used)
        sizes.append(len(message.get("body", b"")))

    headers = [(b"host", b"localhost"), (b"content-encoding", b"gzip")]
    headers.append((b"content-type", b"application/json"))
    scope = {"type": "http", "method": "POST", "path": "/v1/events", "headers": headers}
    await served.gateway(scope, receive, send)

    assert held == [sum(sizes)] * len(held)
    assert served.budget.used == 0
