"""Bad input that the gateway meets, over a real socket.

Unless a row says otherwise: the stated 4xx, nothing produced, the worker alive, a problem
document that echoes no value.
"""

import asyncio
import gzip
import json
import logging
import zlib
from typing import Any

import pytest
from backports import zstd

from shared import wire
from shared.logs import JsonFormatter
from tests.fixtures.fix_ingest import Serve, Served
from tests.fixtures.ingest import body, envelope, one, until

pytestmark = pytest.mark.anyio

CANARY = "canary-4711"


def request(content: bytes, *headers: str, length: bool = True, path: str = "/v1/events") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    if length:
        lines.append(f"Content-Length: {len(content)}")
    if not any(each.lower().startswith("content-type") for each in headers):
        lines.append("Content-Type: application/json")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def chunked(content: bytes, *headers: str, size: int = 1000) -> bytes:
    chunks = [content[n : n + size] for n in range(0, len(content), size)]
    framed = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in chunks) + b"0\r\n\r\n"
    return request(framed, "Transfer-Encoding: chunked", *headers, length=False)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def document(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


async def refused(served: Served, raw: bytes, *expected: int) -> Any:
    answer = await served.raw(raw)
    assert status(answer) in expected, answer
    assert b"application/problem+json" in answer
    assert CANARY.encode() not in answer
    assert served.produced == 0
    assert served.budget.used == 0
    alive = await served.raw(request(one("alive", wire.PROBE_EVENT)))
    assert status(alive) == 202
    served.sink.topics.clear()
    told = document(answer)
    assert told["accepted"] is False
    assert told["fix"]
    return told


async def with_payload(served: Served, payload: bytes, *expected: int) -> Any:
    content = one("id-1").replace(b'"payload":{}', b'"payload":' + payload)
    return await refused(served, request(content), *expected)


async def test_body_over_the_cap_by_content_length(serve: Serve) -> None:
    served = await serve(max_body_bytes=1000)
    await refused(served, request(b" " * 1001), 413)


async def test_an_unread_body_is_never_read_as_the_next_request(serve: Serve) -> None:
    served = await serve(max_body_bytes=500)
    smuggled = request(one("smuggled"))
    raw = request(b" " * 1000 + smuggled).replace(b"Connection: close\r\n", b"", 1)
    answer = await served.raw(raw, half_close=False)
    assert answer.count(b"HTTP/1.1") == 1
    assert b"connection: close" in answer
    assert served.produced == 0


async def test_body_over_the_cap_chunked(serve: Serve) -> None:
    served = await serve(max_body_bytes=1000)
    await refused(served, chunked(b" " * 5000), 413)


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("zstd", zstd.compress), ("deflate", zlib.compress)],
)
async def test_a_bomb_is_refused_while_it_inflates(serve: Serve, encoding: str, compress: Any) -> None:
    served = await serve(max_body_bytes=100_000)
    bomb = compress(b" " * 50_000_000)
    assert len(bomb) < 100_000
    await refused(served, request(bomb, f"Content-Encoding: {encoding}"), 413)


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("zstd", zstd.compress), ("deflate", zlib.compress)],
)
async def test_a_compressed_body_is_accepted(served: Served, encoding: str, compress: Any) -> None:
    content = body([envelope(f"id-{n}", text="x" * 300) for n in range(500)])
    for raw in (request, chunked):
        answer = await served.raw(raw(compress(content), f"Content-Encoding: {encoding}"))
        assert status(answer) == 202
    assert served.produced == 1000
    assert served.budget.used == 0


SKIPPABLE = b"\x5f\x2a\x4d\x18\x03\x00\x00\x00abc"


@pytest.mark.parametrize(
    ("encoding", "compress", "between"),
    [("gzip", gzip.compress, gzip.compress(b"", mtime=0)), ("zstd", zstd.compress, SKIPPABLE)],
)
async def test_a_body_of_several_members_is_one_body(
    serve: Serve, encoding: str, compress: Any, between: bytes
) -> None:
    served = await serve(max_body_bytes=100_000)
    content = body([envelope(f"id-{n}", text="x" * 300) for n in range(100)])
    members = between.join(compress(content[n : n + 5_000]) for n in range(0, len(content), 5_000))
    await refused(served, request(compress(b" " * 60_000) * 2, f"Content-Encoding: {encoding}"), 413)
    told = await refused(served, request(compress(b"") * 1_001, f"Content-Encoding: {encoding}"), 400)
    assert "1000" in told["detail"]
    for raw in (request, chunked):
        answer = await served.raw(raw(between + members + between, f"Content-Encoding: {encoding}"))
        assert status(answer) == 202
    assert (served.produced, served.budget.used) == (200, 0)


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("zstd", zstd.compress), ("deflate", zlib.compress)],
)
async def test_truncated_compression(served: Served, encoding: str, compress: Any) -> None:
    whole = compress(one())
    for broken in (whole[:-5], whole[:4], b"", whole + b"trailing", b"not compressed at all"):
        told = await refused(served, request(broken, f"Content-Encoding: {encoding}"), 400)
        assert told["type"] == "/errors/bad_compression"


async def test_unknown_or_doubled_encoding(served: Served) -> None:
    await refused(served, request(one(), "Content-Encoding: br"), 415)
    twice = gzip.compress(gzip.compress(one()))
    await refused(served, request(twice, "Content-Encoding: gzip, gzip"), 415)
    await refused(served, request(twice, "Content-Encoding: gzip", "Content-Encoding: gzip"), 415)


@pytest.mark.parametrize("content", [b"", b" \r\n\t ", b"[]", b"[ ]"])
async def test_empty(served: Served, content: bytes) -> None:
    told = await refused(served, request(content), 400)
    assert told["type"] == "/errors/empty_body"


@pytest.mark.parametrize(
    "kind", ["multipart/form-data; boundary=x", "text/plain", "application/json; charset=latin-1"]
)
async def test_other_content_types(served: Served, kind: str) -> None:
    await refused(served, request(one(), f"Content-Type: {kind}"), 415)


async def test_content_length_and_transfer_encoding(served: Served) -> None:
    smuggled = b"0\r\n\r\n" + request(one("smuggled"))
    raw = request(smuggled, f"Content-Length: {len(smuggled)}", "Transfer-Encoding: chunked", length=False)
    answer = await served.raw(raw)
    assert status(answer) == 400
    assert answer.count(b"HTTP/1.1") == 1
    await refused(served, raw, 400)


@pytest.mark.parametrize(
    "lengths", [("Content-Length: 5", "Content-Length: 6"), ("Content-Length: -1",), ("Content-Length: x",)]
)
async def test_two_or_negative_content_lengths(served: Served, lengths: tuple[str, ...]) -> None:
    await refused(served, request(one(), *lengths, length=False), 400)


@pytest.mark.parametrize(
    "raw",
    [
        request(one()).replace(b"\r\n", b"\n"),
        request(one(), "X-Folded: a\r\n b"),
        request(one()).replace(b"Host: localhost", b"Host : gateway"),
        request(one(), "Bad Name: x"),
        request(one(), "X-Nul: a\x00b"),
    ],
)
async def test_bare_lf_folded_header_space_before_colon(served: Served, raw: bytes) -> None:
    await refused(served, raw, 400)


async def test_large_and_many_headers(served: Served) -> None:
    await refused(served, request(one(), "X-Large: " + "x" * 100_000), 431)
    await refused(served, request(one(), *[f"X-{n}: y" for n in range(10_000)]), 431)
    await refused(served, request(one(), path="/v1/events?" + "x" * 100_000), 431)


async def test_a_slow_header_or_body_is_late(serve: Serve) -> None:
    served = await serve(read_seconds=0.5)
    raw = request(one())
    head, _, content = raw.partition(b"\r\n\r\n")
    answers = await asyncio.gather(
        served.raw(*[bytes([each]) for each in head], pause=0.1, half_close=False),
        served.raw(head + b"\r\n\r\n", *[bytes([each]) for each in content], pause=0.1, half_close=False),
        served.raw(half_close=False),
        served.raw(head + b"\r\n\r\n" + content[:10], half_close=False),
    )
    assert {status(answer) for answer in answers} <= {408, 0}  # in time it would have been a 202
    assert status(answers[2]) == 408
    assert status(answers[3]) == 408
    assert served.produced == 0
    assert served.budget.used == 0


async def test_a_client_that_leaves_in_the_middle_sends_nothing(served: Served) -> None:
    raw = request(one("left"))
    for cut in (len(raw) - 1, len(raw) - 50):
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(raw[:cut])
        await writer.drain()
        writer.transport.abort()
    await until(lambda: not served.server.server_state.tasks)
    assert served.produced == 0
    assert served.budget.used == 0


async def test_stalled_clients_do_not_block_a_request_of_another_client(serve: Serve) -> None:
    served = await serve(inflight_bytes=100_000, read_seconds=600)  # no one is cut off meanwhile
    head = request(b"", "Content-Length: 90000", length=False)
    stalled = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(200)]
    for number, (_, writer) in enumerate(stalled):
        writer.write(head if number % 2 else head[:40])
    await until(lambda: len(served.server.server_state.tasks) == 100)

    assert status(await served.raw(request(one()))) == 202
    for _, writer in stalled:
        writer.close()
    await until(lambda: not served.server.server_state.tasks)
    assert served.budget.used == 0


async def test_a_keep_alive_connection_is_not_late_between_requests(serve: Serve) -> None:
    served = await serve(read_seconds=0.3)
    raw = request(one()).replace(b"Connection: close\r\n", b"")
    answer = await served.raw(raw, raw, raw, pause=0.5)
    assert answer.count(b"202 Accepted") == 3


@pytest.mark.parametrize("host", ["a/b?c=", "a b", "a@b", "a\\b"])
async def test_a_host_that_is_none(served: Served, host: str) -> None:
    await refused(served, request(one()).replace(b"Host: localhost", f"Host: {host}".encode()), 400)


async def test_two_hosts_or_none(served: Served) -> None:
    await refused(served, request(one(), "Host: other"), 400)
    await refused(served, request(one()).replace(b"Host: localhost\r\n", b""), 400)


async def test_two_documents(served: Served) -> None:
    await refused(served, request(one("a") + one("b")), 400)
    await refused(served, request(b"[" + one("a") + b"]" + one("b")), 400)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
async def test_bom_and_other_encodings(served: Served, encoding: str) -> None:
    await refused(served, request(one().decode().encode(encoding)), 400)


@pytest.mark.parametrize(
    "text", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xe2\x82"]
)
async def test_invalid_utf8(served: Served, text: bytes) -> None:
    await with_payload(served, b'{"a":"canary-4711' + text + b'"}', 400)


@pytest.mark.parametrize("text", [b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud800\\u0041"'])
async def test_lone_surrogates(served: Served, text: bytes) -> None:
    await with_payload(served, b'{"a":' + text + b"}", 400)


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"nan"])
async def test_nan_and_infinity(served: Served, number: bytes) -> None:
    await with_payload(served, b'{"a":' + number + b"}", 400)


@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"1" + b"0" * 400 + b".0"])
async def test_beyond_a_double(served: Served, number: bytes) -> None:
    await with_payload(served, b'{"a":' + number + b"}", 400)


async def test_23_digit_integer(served: Served) -> None:
    await with_payload(served, b'{"a":12345678901234567890123}', 400)
    await with_payload(served, b'{"a":-9223372036854775809}', 400)
    await with_payload(served, b'{"a":18446744073709551616}', 400)


async def test_integers_of_64_bits_are_exact(served: Served) -> None:
    content = one().replace(b'"payload":{}', b'"payload":{"a":[18446744073709551615,-9223372036854775808]}')
    assert status(await served.raw(request(content))) == 202
    assert served.sink.records("events.order_placed")[0].value == content


async def test_5000_digit_integer(served: Served) -> None:
    await with_payload(served, b'{"a":' + b"9" * 5000 + b"}", 400)


@pytest.mark.parametrize("depth", [65, 1100, 100_000])
async def test_depth(served: Served, depth: int) -> None:
    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
        told = await with_payload(served, b'{"a":' + opened * depth + b"1" + closed * depth + b"}", 400)
        assert told["type"] == "/errors/too_deep"


@pytest.mark.parametrize(
    "payload", [b'{"a":1,"a":2}', b'{"b":{"a":1,"c":[],"a":1}}', b'{"a":1,"\\u0061":2}', b'{"a":1,"a" :2}']
)
async def test_duplicate_keys(served: Served, payload: bytes) -> None:
    told = await with_payload(served, payload, 400)
    assert told["type"] == "/errors/duplicate_key"


@pytest.mark.parametrize("content", [b"1", b"null", b'"canary-4711"', b"true"])
async def test_top_level_scalars(served: Served, content: bytes) -> None:
    await refused(served, request(content), 400)


async def test_a_bad_item_in_a_batch(served: Served) -> None:
    batch = [envelope(f"id-{n}") for n in range(5)]
    batch[2]["metadata"].pop("id")
    answer = await served.raw(request(body(batch)))

    assert status(answer) == 207
    results = document(answer)["results"]
    assert [each["status"] for each in results] == [202, 202, 422, 202, 202]
    assert results[2]["error"]["pointer"] == "/metadata"
    keys = {record.key for record in served.sink.records("events.order_placed")}
    assert keys == {b"id-0", b"id-1", b"id-3", b"id-4"}


async def test_batch_over_the_limit(serve: Serve) -> None:
    served = await serve(max_batch=3)
    for content in (body([envelope(f"id-{n}") for n in range(4)]), b"[" + b"NaN," * 3 + b"1]"):
        await refused(served, request(content), 413)
    lines = b"\n".join(one(f"id-{n}") for n in range(4))
    await refused(served, request(lines, "Content-Type: application/x-ndjson"), 413)


async def test_event_over_the_limit(serve: Serve) -> None:
    served = await serve(max_event_bytes=1000)
    await refused(served, request(one(text="x" * 1000)), 413)
    # (test_an_event_too_large_for_the_topic… proves the broker's own limit)


@pytest.mark.parametrize("event_id", [None, "", "\0", "x" * 10_000, "x" * 129, "a b", "ä", 7])
async def test_ids(served: Served, event_id: object) -> None:
    content = envelope()
    content["metadata"]["id"] = event_id
    if event_id is None:
        del content["metadata"]["id"]
    told = await refused(served, request(body(content)), 422)
    assert told["pointer"].startswith("/metadata")


async def test_the_same_event_twice_is_accepted_twice(served: Served) -> None:
    answers = [await served.raw(request(one("same"))) for _ in range(2)]
    assert [status(answer) for answer in answers] == [202, 202]
    receipts = [document(answer)["receipt"] for answer in answers]
    assert receipts[0]["partition"] == receipts[1]["partition"]


async def test_the_same_id_with_another_body_is_the_writers_to_judge(served: Served) -> None:
    answers = [await served.raw(request(one("same", n=n))) for n in range(2)]
    assert [status(answer) for answer in answers] == [202, 202]


async def test_a_key_of_a_megabyte(serve: Serve) -> None:
    served = await serve({"event_types": {"order_placed": {"key": "/customer"}}}, max_event_bytes=5_000_000)
    told = await refused(served, request(one(customer="k" * 1_000_000)), 422)
    assert told["type"] == "/errors/key_missing"
    content = envelope()
    content["metadata"]["id"] = "k" * 1_000_000
    await refused(served, request(body(content)), 422)


@pytest.mark.parametrize(
    "name", ["__consumer_offsets", "../x", "x" * 250, "Order", "1st", "", "a.b", "ä", "x\n", "a" * 64]
)
async def test_event_names(served: Served, name: str) -> None:
    told = await refused(served, request(one(name=name)), 422)
    assert told["pointer"] == "/event_name"
    assert not served.sink.topics


async def test_control_characters_in_logged_fields(served: Served) -> None:
    record = logging.makeLogRecord({"msg": "rejected", "event_id": 'a\r\n{"level":"fake"}\x1b[31m'})
    line = JsonFormatter("ingest").format(record)
    assert "\n" not in line
    assert "\x1b" not in line
    await refused(served, request(one("a\r\nlevel=fake\x1b[31m")), 422)


KEYED = {"keys": {"shop": {"hashes": [{"sha256": "0" * 64}]}}}


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("Authorization: Bearer onramp_shop_" + "x" * 43,),
        ("Authorization: Bearer onramp_other_" + "x" * 43,),
        ("Authorization: Bearer a", "Authorization: Bearer b"),
        ("Authorization: Basic eDp5",),
        ("Authorization: Bearer \xe4\xf6",),
        ("Authorization:",),
        ("Authorization: Bearer " + "x" * 5000,),
    ],
)
async def test_keys(serve: Serve, headers: tuple[str, ...]) -> None:
    served = await serve(KEYED)
    answer = await served.raw(request(one(), *headers))
    assert status(answer) == 401
    assert b"www-authenticate: Bearer" in answer
    assert served.produced == 0


@pytest.mark.parametrize("method", ["PUT", "TRACE", "GET", "DELETE", "PATCH", "OPTIONS", "HEAD"])
async def test_other_methods(served: Served, method: str) -> None:
    answer = await served.raw(request(one()).replace(b"POST", method.encode(), 1))
    assert status(answer) == 405
    assert b"allow: POST" in answer


async def test_other_paths(served: Served) -> None:
    for path in ("/v2/events", "/v1/events/", "/v1/events/../x", "/", "//v1/events"):
        await refused(served, request(one(), path=path), 404)


async def test_an_oversize_body_that_is_only_announced(serve: Serve) -> None:
    served = await serve(max_body_bytes=1000)
    raw = request(b"", "Expect: 100-continue", "Content-Length: 5000", length=False)
    answer = await served.raw(raw.replace(b"Connection: close\r\n", b""), half_close=False)
    assert status(answer) == 413
    assert b"100 Continue" not in answer
    assert b"connection: close" in answer
