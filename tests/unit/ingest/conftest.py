"""The gateway's application in this process, on a sink in memory."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from services.ingest.app import Gateway, State, assemble
from services.ingest.budget import Budget
from services.ingest.schemas import check_schemas
from services.ingest.settings import IngestSettings
from services.ingest.sink import MemorySink
from shared.registry.memory import MemoryRegistry


class Door:
    """A gateway, what it sends to, and a client of it."""

    def __init__(self, settings: IngestSettings, registry: dict[str, Any] | None) -> None:
        self.settings = settings
        self.registry = MemoryRegistry(registry, check_schemas)
        self.sink = MemorySink()
        self.budget = Budget(settings.inflight_bytes)
        self.gateway: Gateway = assemble(settings, self.sink, self.budget, self.registry, self._lifespan)
        transport = httpx2.ASGITransport(app=self.gateway)
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://gateway")

    async def post(self, content: Any, **headers: str) -> httpx2.Response:
        given = {"content-type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return await self.client.post("/v1/events", content=content, headers=given)

    @property
    def produced(self) -> int:
        return sum(len(self.sink.records(topic)) for topic in self.sink.topics)

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[State]:
        yield {"settings": self.settings}


MakeDoor = Callable[..., Door]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def make_door() -> AsyncIterator[MakeDoor]:
    doors: list[Door] = []

    def make(registry: dict[str, Any] | None = None, **settings: Any) -> Door:
        doors.append(Door(IngestSettings(**settings), registry))
        return doors[-1]

    yield make
    for door in doors:
        await door.client.aclose()


@pytest.fixture
def door(make_door: MakeDoor) -> Door:
    return make_door()
