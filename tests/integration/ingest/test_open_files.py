"""A gateway with few files: silent connections never take those of Kafka and the registry."""

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from shared.registry.key_secrets import new_key
from stack import services
from stack.ports import LOOPBACK
from stack.registry import OwnRegistry
from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.ingest import JSON, one, until
from tests.fixtures.running_part import started

pytestmark = pytest.mark.anyio

FILES, WORKERS, SILENT = 200, 2, 600
SHOP, SHOP_HASH = new_key("shop")
LATER, LATER_HASH = new_key("later")


def registered(**keys: str) -> dict[str, Any]:
    return {"keys": {name: {"hashes": [{"sha256": of}]} for name, of in keys.items()}}


@pytest.fixture
def registry(kafka: HasBootstrap) -> OwnRegistry:
    return OwnRegistry(kafka.bootstrap, registered(shop=SHOP_HASH))


@pytest.fixture
def poor(kafka: HasBootstrap, registry: OwnRegistry, tmp_path: Path) -> Iterator[Service]:
    env = {
        "ONRAMP_INGEST_WORKERS": str(WORKERS),
        **registry.env,
        "ONRAMP_INGEST_READ_SECONDS": "300",
    }
    service = services.gateway(bootstrap=kafka.bootstrap, log=tmp_path / "gateway.log", env=env)
    limited = ("bash", "-c", f'ulimit -n {FILES} && exec "$@"', "-", *service.child.command.argv)
    service.child.command = replace(service.child.command, argv=limited)
    with started(service):
        yield service


async def sent(service: Service, name: str, key: str) -> int:
    headers = JSON | {"authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(timeout=60) as client:
        url = f"{service.url}/v1/events"
        return (await client.post(url, content=one(name=name), headers=headers)).status_code


async def shown(service: Service, metric: str) -> float:
    async with httpx2.AsyncClient(timeout=60) as client:
        text = (await client.get(f"{service.url}/metrics")).text
    return float(re.findall(rf"^{metric} (\S+)", text, re.MULTILINE)[0])


async def test_silent_connections_leave_files_for_kafka_and_the_registry(
    poor: Service, registry: OwnRegistry
) -> None:
    with ExitStack() as held:
        for _ in range(SILENT):
            silent = held.enter_context(socket.socket())
            silent.bind(("127.0.0.2", 0))
            silent.setblocking(False)
            await asyncio.get_running_loop().sock_connect(silent, (LOOPBACK, poor.port))

        # New names need connections to Kafka, and a new key the registry.
        assert [await sent(poor, f"poor_{n}", SHOP) for n in range(4)] == [202] * 4
        await asyncio.to_thread(registry.put, registered(shop=SHOP_HASH, later=LATER_HASH))

        async def admitted() -> bool:
            return [await sent(poor, f"poor_{n}", LATER) for n in range(4, 8)] == [202] * 4

        await until(admitted)
        limit = await shown(poor, "onramp_ingest_connections_limit")
        assert limit < WORKERS * FILES
        assert 0 < await shown(poor, "onramp_ingest_connections") <= limit
    assert "Too many open files" not in poor.log.read_text()
