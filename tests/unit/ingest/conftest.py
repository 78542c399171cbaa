"""The gateway's application in this process, on a sink in memory."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import orjson
import pytest
from fastapi import FastAPI

from services.ingest.app import Gateway, State, assemble
from services.ingest.http.connections import Connections
from services.ingest.http.drain import Drain
from services.ingest.observe.metrics import REGISTRY, EventCounts
from services.ingest.observe.rejection_log import RejectionLog
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.settings import IngestSettings
from services.ingest.sink import MemorySink
from services.ingest.syslog.listener import Syslog
from shared.registry.memory import MemoryRegistry
from stack.ports import free_port


class LocalGateway:
    """A gateway, its sink, and a client."""

    def __init__(
        self, settings: IngestSettings, registry: dict[str, Any] | None, *, allow_keyless: bool = True
    ) -> None:
        self.settings = settings
        self.registry = MemoryRegistry(registry)
        self.sink = MemorySink()
        self.budget = ByteBudget(settings.inflight_bytes)
        self.app: Gateway = assemble(
            settings,
            sink=self.sink,
            budget=self.budget,
            registry=self.registry,
            lifespan=self._lifespan,
            allow_keyless=allow_keyless,
        )
        transport = httpx2.ASGITransport(app=self.app)
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://localhost")

    async def post(self, content: Any, **headers: str) -> httpx2.Response:
        given = {"content-type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return await self.client.post("/v1/events", content=content, headers=given)

    @property
    def produced(self) -> int:
        return sum(len(self.sink.records(topic)) for topic in self.sink.topics)

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[State]:
        yield {
            "settings": self.settings,
            "drain": Drain(),
            "budget": self.budget,
            "connections": Connections(self.settings.max_connections),
            "tls": None,
        }


MakeGateway = Callable[..., LocalGateway]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def make_gateway() -> AsyncIterator[MakeGateway]:
    gateways: list[LocalGateway] = []

    def make(
        registry: dict[str, Any] | None = None, *, allow_keyless: bool = True, **settings: Any
    ) -> LocalGateway:
        gateways.append(LocalGateway(IngestSettings(**settings), registry, allow_keyless=allow_keyless))
        return gateways[-1]

    yield make
    for gateway in gateways:
        await gateway.client.aclose()


@pytest.fixture
def gateway(make_gateway: MakeGateway) -> LocalGateway:
    return make_gateway()


class Rig:
    """Both syslog listeners on a sink in memory."""

    def __init__(self, gateway: LocalGateway, syslog: Syslog, tcp: int, udp: int) -> None:
        self.gateway = gateway
        self.syslog = syslog
        self.tcp = tcp
        self.udp = udp

    @property
    def payloads(self) -> list[dict[str, Any]]:
        records = self.gateway.sink.records("events.syslog_message")
        return [orjson.loads(record.value)["payload"] for record in records]

    @property
    def messages(self) -> list[str]:
        return sorted(payload["message"] for payload in self.payloads)


@pytest.fixture
async def start(make_gateway: MakeGateway) -> AsyncIterator[Callable[..., Any]]:
    started: list[Rig] = []

    async def start(**settings: Any) -> Rig:
        tcp, udp = free_port(), free_port()
        gateway = make_gateway(syslog_tcp_port=tcp, syslog_udp_port=udp, **settings)
        syslog = Syslog(gateway.app.flow, gateway.settings, RejectionLog(), events=EventCounts())
        await syslog.start()
        started.append(Rig(gateway, syslog, tcp, udp))
        return started[-1]

    yield start
    for rig in started:
        await rig.syslog.stop(within=1)


@pytest.fixture
async def rig(start: Callable[..., Any]) -> Rig:
    rig: Rig = await start()
    return rig


def counted(transport: str, outcome: str) -> float:
    """How many syslog messages met that outcome since the process began."""
    labels = {"transport": transport, "outcome": outcome}
    return REGISTRY.get_sample_value("onramp_ingest_syslog_messages_total", labels) or 0.0
