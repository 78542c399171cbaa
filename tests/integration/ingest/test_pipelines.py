"""Pipelined requests are answered in order, also if one of them is malformed."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from services.ingest.sink import Record, SendResult
from tests.fixtures.fix_ingest import Serve, Served
from tests.fixtures.ingest import one, until
from tests.integration.ingest.test_bad_input import request

pytestmark = pytest.mark.anyio


class Held:
    """A gateway whose events are on Kafka while the acknowledgement is under way until `let`."""

    def __init__(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        self.served = served
        self.let = asyncio.Event()
        self._send = served.sink.send
        monkeypatch.setattr(served.sink, "send", self._sent)

    async def _sent(self, records: Sequence[Record]) -> list[SendResult]:
        sent = await self._send(records)
        await self.let.wait()
        return sent


@pytest.fixture
async def held(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(await serve(read_seconds=1), monkeypatch)


GOOD = request(one("good")).replace(b"Connection: close\r\n", b"")
LATE = request(b"{", "Content-Length: 100", length=False)
BROKEN = {
    "no HTTP": b"not HTTP at all\r\n\r\n",
    "a bad header": request(one("bad"), "Bad Name: x"),
    "no host": request(one("bad")).replace(b"Host: localhost\r\n", b""),
    "two hosts": request(one("bad"), "Host: other"),
    "many headers": request(one("bad"), *[f"X-{n}: y" for n in range(100)]),
    "a broken chunk": request(b"zz\r\n", "Transfer-Encoding: chunked", length=False),
    "a late body": LATE,
}


def statuses(answers: bytes) -> list[int]:
    return [int(each[:3]) for each in answers.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize("broken", BROKEN.values(), ids=list(BROKEN))
async def test_a_broken_request_never_overtakes_a_pending_answer(held: Held, broken: bytes) -> None:
    good = 3
    reader, writer = await asyncio.open_connection("127.0.0.1", held.served.port)
    writer.write(GOOD * good + broken)
    await until(lambda: held.served.produced == 1)
    first = asyncio.create_task(reader.read())
    # Longer than the clock of what is late: nobody may be answered while the first one waits.
    done, _ = await asyncio.wait([first], timeout=1.5)
    assert not done
    held.let.set()
    answers = await asyncio.wait_for(first, 20)
    writer.close()

    assert statuses(answers)[:good] == [202] * good
    assert statuses(answers)[good:] in ([400], [408], [431])
    assert b"connection: close" in answers
    assert json.loads(answers.rpartition(b"\r\n\r\n")[2])["accepted"] is False
    assert held.served.produced == good


async def test_after_a_refusal_nothing_more_is_taken(held: Held) -> None:
    held.let.set()
    answers = await held.served.raw(GOOD + BROKEN["no host"] + GOOD * 3, half_close=False)

    assert statuses(answers) == [202, 400]
    assert held.served.produced == 1


async def test_a_request_that_is_answered_is_not_refused_as_well(held: Held) -> None:
    raw = LATE.replace(b"/v1/events", b"/healthz").replace(b"Connection: close\r\n", b"")

    assert statuses(await held.served.raw(raw, half_close=False)) == [405]


async def test_only_so_many_requests_of_a_connection_wait(held: Held) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", held.served.port)
    writer.write(GOOD * 150)
    await until(lambda: held.served.produced == 1)
    held.let.set()
    answers = await asyncio.wait_for(reader.read(), 60)
    writer.close()

    assert statuses(answers) == [202] * 101 + [400]
    assert b"read their answers" in answers
    assert held.served.produced == 101
