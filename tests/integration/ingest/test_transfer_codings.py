"""Ambiguous framing of a body: one error answer, and nothing after it is parsed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvicorn

from shared.http11 import Http11Protocol
from tests.fixtures.fix_ingest import Served
from tests.fixtures.ingest import one
from tests.integration.ingest.test_bad_input import document, request
from tests.integration.ingest.test_pipelines import statuses

pytestmark = pytest.mark.anyio

CHUNKED = "Transfer-Encoding: chunked"
LENGTH = "Content-Length: 5"
OFFER = ("Connection: Upgrade", "Upgrade: h2c")
CASES: dict[str, tuple[int, tuple[str, ...]]] = {
    "gzip": (501, ("Transfer-Encoding: gzip, chunked",)),
    "gzip in two headers": (501, ("Transfer-Encoding: gzip", CHUNKED)),
    "two unknown": (501, ("Transfer-Encoding: x-a, x-b,Chunked",)),
    "gzip with an offer": (501, ("Transfer-Encoding: gzip, chunked", *OFFER)),
    "an empty one": (501, ("Transfer-Encoding: , chunked",)),
    "twice": (400, ("Transfer-Encoding: chunked, chunked",)),
    "twice in two headers": (400, (CHUNKED, CHUNKED)),
    "not the last": (400, ("Transfer-Encoding: chunked, gzip",)),
    "not the last header": (400, (CHUNKED, "Transfer-Encoding: gzip")),
    "another name": (400, ("Transfer-Encoding: xchunked",)),
    "another name with an offer": (400, ("Transfer-Encoding: xchunked", *OFFER)),
    "a parameter": (400, ("Transfer-Encoding: chunked;a=b",)),
    "a tab": (400, ("Transfer-Encoding: chunked\t",)),
    "none": (400, ("Transfer-Encoding:",)),
    "with a length": (400, (CHUNKED, LENGTH)),
    "behind a length": (400, (LENGTH, CHUNKED)),
    "gzip with a length": (400, ("Transfer-Encoding: gzip, chunked", LENGTH)),
    "two lengths": (400, (LENGTH, "Content-Length: 6")),
}
#: A whole request in what one reader takes for the body, and one behind.
CONTENT = b"0\r\n\r\n" + request(one("smuggled"))


def ambiguous(*headers: str) -> bytes:
    return request(CONTENT, *headers, length=False).replace(b"Connection: close\r\n", b"")


def framed(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)


@pytest.mark.parametrize(("expected", "headers"), CASES.values(), ids=list(CASES))
async def test_the_gateway_answers_once_and_closes(
    served: Served, expected: int, headers: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    answer = await served.raw(ambiguous(*headers))
    assert statuses(answer) == [expected], answer
    assert b"connection: close" in answer
    assert document(answer)["accepted"] is False
    assert served.produced == 0
    assert not [each for each in caplog.records if each.exc_info]


@pytest.mark.parametrize("coding", ["chunked", "gzip, chunked"])
async def test_http_1_0_has_no_transfer_codings(served: Served, coding: str) -> None:
    raw = request(framed(one("a")), f"Transfer-Encoding: {coding}", length=False)
    answer = await served.raw(raw.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
    assert statuses(answer) == [400], answer
    assert served.produced == 0


async def test_requests_before_it_are_answered_first(served: Served) -> None:
    good = request(one("good")).replace(b"Connection: close\r\n", b"")
    answers = await served.raw(good + ambiguous("Transfer-Encoding: gzip, chunked"))
    assert statuses(answers) == [202, 501], answers
    assert served.produced == 1


@pytest.mark.parametrize("coding", ["chunked", "Chunked", "CHUNKED  "])
async def test_chunked_is_read_in_any_case(served: Served, coding: str) -> None:
    answer = await served.raw(request(framed(one("a")), f"Transfer-Encoding: {coding}", length=False))
    assert statuses(answer) == [202], answer


Answered = Callable[[bytes], Awaitable[bytes]]


@pytest.fixture
async def plain(requests: list[str]) -> AsyncIterator[Answered]:
    """A server of the class that the admin service and the agent use."""

    async def app(scope: dict[str, Any], _: Any, send: Any) -> None:
        requests.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"read"})

    config = uvicorn.Config(app, port=0, http=Http11Protocol, ws="none", lifespan="off", log_config=None)  # type: ignore[arg-type]
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()

    async def answered(raw: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.servers[0].sockets[0].getsockname()[1]
        )
        writer.write(raw)
        try:
            return await asyncio.wait_for(reader.read(), 20)
        finally:
            writer.close()

    yield answered
    for each in server.servers:
        each.close()
        await each.wait_closed()


@pytest.fixture
def requests() -> list[str]:
    return []


@pytest.mark.parametrize(("expected", "headers"), CASES.values(), ids=list(CASES))
async def test_the_other_services_answer_once_and_close(
    plain: Answered, requests: list[str], expected: int, headers: tuple[str, ...]
) -> None:
    answer = await plain(ambiguous(*headers))
    assert statuses(answer) == [expected], answer
    assert b"connection: close" in answer
    assert requests == []
