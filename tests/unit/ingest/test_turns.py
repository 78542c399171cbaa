"""Turns for heavy bodies: many bodies of one sender delay another sender by one body at most."""

import asyncio
import threading
from typing import Any

import httpx2
import pytest

from services.ingest import accept
from services.ingest.request import RequestContext
from services.ingest.turns import Turns
from shared.registry.key_secrets import new_key
from tests.fixtures.ingest import one, until
from tests.unit.ingest.conftest import LocalGateway, MakeGateway

pytestmark = pytest.mark.anyio

HEAVY = b"x" * 200_000


class Judging:
    """Records the senders whose bodies are parsed after `begin`, and how many at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begin = threading.Event()
        self.began: list[str] = []
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()
        self._decode, self._route = accept.decode, accept.route
        monkeypatch.setattr(accept, "decode", self._decoded)
        monkeypatch.setattr(accept, "route", self._routed)

    def _decoded(self, body: bytes, arrival: RequestContext, limits: Any) -> Any:
        with self._lock:
            self.began.append(arrival.queue)
            self._now += 1
            self.most = max(self.most, self._now)
        assert self.begin.wait(120)
        return self._decode(body, arrival, limits)

    def _routed(self, *given: Any) -> None:
        self._route(*given)
        with self._lock:
            self._now -= 1


@pytest.fixture
def judging(monkeypatch: pytest.MonkeyPatch) -> Judging:
    return Judging(monkeypatch)


def waiting(gateway: LocalGateway) -> int:
    return sum(len(line) for line in gateway.app.flow.turns._waiting.values())


async def test_another_sender_waits_for_no_more_than_one_body_of_the_first(
    make_gateway: MakeGateway, judging: Judging
) -> None:
    keys = {name: new_key(name) for name in ("many", "few")}
    gateway = make_gateway(
        {"keys": {name: {"hashes": [{"sha256": digest}]} for name, (_, digest) in keys.items()}}
    )

    def post(name: str) -> "asyncio.Task[httpx2.Response]":
        authorization = f"Bearer {keys[name][0]}"
        return asyncio.create_task(gateway.post(one(text="x" * 200_000), authorization=authorization))

    posts = [post("many") for _ in range(8)]
    await until(lambda: len(judging.began) == 2 and waiting(gateway) == 6)
    posts.append(post("few"))
    await until(lambda: waiting(gateway) == 7)
    judging.begin.set()

    assert {answer.status_code for answer in await asyncio.gather(*posts)} == {202}
    assert judging.began.index("few") <= 3  # behind the two that had begun, and one that was next
    assert judging.most == 2
    assert gateway.app.flow.turns._free == 2


def arrival(address: str) -> RequestContext:
    return RequestContext("r", "now", {}, address)


async def test_without_keys_addresses_have_turns() -> None:
    turns, order, first = Turns(), [], asyncio.Event()

    async def judged(address: str) -> None:
        async with turns.of(HEAVY, arrival(address)):
            order.append(address)
            await first.wait()

    tasks = [asyncio.create_task(judged(each)) for each in ("a", "a", "a", "a", "b", "c")]
    await until(lambda: len(order) == 2)
    first.set()
    await asyncio.gather(*tasks)

    assert order == ["a", "a", "a", "b", "c", "a"]


@pytest.mark.parametrize("turn_came", [False, True])
async def test_cancelled_waiter_leaves_its_turn_to_the_next_request(*, turn_came: bool) -> None:
    turns, order = Turns(), []

    async def judged(address: str) -> None:
        async with turns.of(HEAVY, arrival(address)):
            order.append(address)

    async with turns.of(HEAVY, arrival("a")):
        async with turns.of(HEAVY, arrival("b")):
            gone, last = [asyncio.create_task(judged(each)) for each in ("gone", "last")]
            await until(lambda: len(turns._waiting) == 2)
            if not turn_came:
                gone.cancel()
        gone.cancel()
        async with asyncio.timeout(60):
            await last

    assert order == ["last"]
    assert turns._free == 2


async def test_a_light_body_has_no_turn_to_wait_for(make_gateway: MakeGateway, judging: Judging) -> None:
    gateway = make_gateway()
    large = [asyncio.create_task(gateway.post(one(text="x" * 200_000))) for _ in range(3)]
    await until(lambda: len(judging.began) == 2 and waiting(gateway) == 1)
    light = Turns.of(gateway.app.flow.turns, one(), arrival("a"))

    async with asyncio.timeout(60), light as judge:
        assert await judge(len, b"abc") == 3
    judging.begin.set()
    assert {answer.status_code for answer in await asyncio.gather(*large)} == {202}
