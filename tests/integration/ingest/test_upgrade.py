"""A request that offers another protocol is read as HTTP/1.1, with its body (RFC 9110, section 7.8)."""

import asyncio

import pytest

from tests.fixtures.fix_ingest import Served
from tests.fixtures.ingest import one
from tests.integration.ingest.test_bad_input import chunked, request
from tests.integration.ingest.test_pipelines import statuses

pytestmark = pytest.mark.anyio

OFFERS = {
    "h2c": (
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk",
    ),
    "unknown": ("Connection: upgrade", "Upgrade: foo"),
    "TLS": ("Connection: Upgrade", "Upgrade: TLS/1.2"),
    "WebSocket": ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
    "several": ("Connection: keep-alive, Upgrade", "Upgrade: h2c, foo, websocket"),
    "two headers": ("Connection: Upgrade", "Upgrade: h2c", "Upgrade: foo"),
}
CLOSE = b"Connection: close\r\n"
#: A body that is a whole request itself, in a payload that ends where the request begins.
SMUGGLED = request(one("smuggled"))


def offering(content: bytes, offer: str) -> bytes:
    """A request with an offer on a connection that stays open."""
    return request(content, *OFFERS[offer]).replace(CLOSE, b"", 1)


def ids(served: Served) -> list[str]:
    return [r.key.decode() for topic in served.sink.topics for r in served.sink.records(topic)]


@pytest.mark.parametrize("offer", OFFERS)
async def test_each_request_with_an_offer_has_one_answer(served: Served, offer: str) -> None:
    answers = await served.raw(
        offering(one("a"), offer)
        + chunked(one("b"), *OFFERS[offer], size=20).replace(CLOSE, b"", 1)
        + offering(one("c"), offer)
        + request(one("d"))
    )
    assert statuses(answers) == [202] * 4, answers
    assert sorted(ids(served)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("offer", OFFERS)
async def test_a_body_that_comes_later_is_a_body(served: Served, offer: str) -> None:
    head, _, content = offering(SMUGGLED, offer).partition(b"\r\n\r\n")
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    for piece in (head + b"\r\n\r\n", content[:30], content[30:]):
        writer.write(piece)
        await writer.drain()
    writer.write(request(one("next")))
    answers = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert statuses(answers) == [400, 202], answers
    assert b"empty_body" not in answers
    assert ids(served) == ["next"]


async def test_an_offer_without_a_body_is_answered_as_without_the_offer(served: Served) -> None:
    get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    answers = await served.raw(get + get + request(one("a")))
    assert statuses(answers) == [200, 200, 202], answers


async def test_thousands_of_offers_in_one_read_do_not_end_the_connection_with_an_error(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    get = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    answers = await served.raw(get * 3000)
    assert set(statuses(answers)) <= {404, 400}
    assert not [each for each in caplog.records if each.exc_info]
    assert statuses(await served.raw(request(one("a")))) == [202]


@pytest.mark.parametrize("offer", ["", *OFFERS])
async def test_a_body_without_an_end_is_refused_with_and_without_an_offer(
    served: Served, offer: str, caplog: pytest.LogCaptureFixture
) -> None:
    headers = b"".join(each.encode() + b"\r\n" for each in OFFERS.get(offer, ()))
    head = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\n" + headers
    answers = await served.raw(head + b"\r\n" + request(one("a")))
    assert statuses(answers) == [400], answers
    assert ids(served) == []
    assert not [each for each in caplog.records if each.exc_info]


async def test_a_tunnel_is_refused_and_what_follows_is_not_read(served: Served) -> None:
    answers = await served.raw(
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n" + request(one("a"))
    )
    assert statuses(answers) == [400], answers
    assert ids(served) == []


@pytest.mark.parametrize(
    "trailer", ["Content-Encoding: gzip", "Content-Type: text/plain", "Connection: Upgrade\r\nUpgrade: h2c"]
)
async def test_trailers_are_no_headers(served: Served, trailer: str) -> None:
    body = chunked(one("a"), size=1 << 20).replace(CLOSE, b"", 1)
    assert body.endswith(b"\r\n0\r\n\r\n")
    answers = await served.raw(body[:-2] + trailer.encode() + b"\r\n\r\n" + request(one("b")))
    assert statuses(answers) == [202] * 2, answers
    assert sorted(ids(served)) == ["a", "b"]
