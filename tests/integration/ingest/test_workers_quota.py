"""A key's quota with several workers: one connection gets all of it, many get no more."""

import asyncio
import hashlib
import time

import httpx2
import pytest

from stack.registry import OwnRegistry
from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_stack import StartGateway
from tests.fixtures.ingest import JSON, one

pytestmark = pytest.mark.anyio

KEY = "onramp_shop_" + "x" * 43
RATE, BURST, WORKERS = 10, 20, 2


async def accepted(service: Service, name: str) -> int:
    """How many events one connection sends until it is refused."""
    headers = JSON | {"authorization": f"Bearer {KEY}"}
    async with httpx2.AsyncClient(timeout=60) as client:
        for n in range(1000):
            answer = await client.post(
                f"{service.url}/v1/events", content=one(f"{name}-{n}", "quota_event"), headers=headers
            )
            if answer.status_code == 429:
                return n
            assert answer.status_code == 202, answer.text
    raise AssertionError("nothing was refused")


async def test_workers_share_a_keys_quota(kafka: HasBootstrap, start_gateway: StartGateway) -> None:
    shop = {"hashes": [{"sha256": hashlib.sha256(KEY.encode()).hexdigest()}], "events_per_second": RATE}
    registry = OwnRegistry(kafka.bootstrap, {"keys": {"shop": shop}})
    service = start_gateway(kafka.bootstrap, {"ONRAMP_INGEST_WORKERS": str(WORKERS), **registry.env})
    began = time.monotonic()
    alone = await accepted(service, "alone")
    assert alone >= BURST
    several = await asyncio.gather(*(accepted(service, f"one-of-{n}") for n in range(8)))
    # Each of the requests that are under way at once may pass on the last token.
    assert alone + sum(several) <= BURST + RATE * (time.monotonic() - began) + 8
