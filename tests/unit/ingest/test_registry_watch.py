"""The watcher of the registry survives errors, blocks no request and reports its state."""

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest
from pydantic import ValidationError

from services.ingest import app
from services.ingest.app import assemble
from services.ingest.http.connections import Connections
from services.ingest.observe.metrics import RegistryInfo
from services.ingest.observe.page import exposition
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.settings import IngestSettings
from services.ingest.sink import MemorySink
from shared.contracts import type_schemas
from shared.contracts.type_schemas import Compiler
from shared.registry import Snapshot
from shared.registry.log import MemoryLog
from shared.registry.log_registry import LogRegistry
from shared.registry.memory import MemoryRegistry
from tests.fixtures.ingest import one, until
from tests.unit.ingest.conftest import LocalGateway, MakeGateway
from tests.unit.ingest.test_senders import registry, send

pytestmark = pytest.mark.anyio


class Watched(MemoryRegistry):
    """Counts reads, records their threads, and fails the first one."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.looks = 0
        self.threads: set[int] = set()
        super().__init__(document)
        self.looks = 0

    def refresh(self) -> bool:
        self.looks += 1
        self.threads.add(threading.get_ident())
        if self.looks == 1 and self.snapshot().keys:
            raise RuntimeError
        return super().refresh()


async def test_a_look_that_fails_is_not_the_last_and_none_is_on_the_loop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app, "_REFRESH_SECONDS", 0.01)
    watched = Watched(registry())
    watched.threads.clear()
    first = watched.snapshot().digest
    watching = asyncio.create_task(app._watch(watched, ByteBudget(1), Connections(1)))
    await until(lambda: watched.looks >= 2)
    assert f'onramp_registry_info{{digest="{first}"}} 1.0' in exposition().decode()
    watched.put({"keys": {}})
    await until(lambda: not watched.snapshot().keys)
    second = watched.snapshot().digest
    await until(lambda: f'onramp_registry_info{{digest="{second}"}} 1.0' in exposition().decode())
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching

    assert f'onramp_registry_info{{digest="{first}"}} 0.0' in exposition().decode()
    assert shown("onramp_ingest_inflight_bytes_limit") == 1
    assert "keeping the previous" in caplog.text
    assert threading.get_ident() not in watched.threads


def test_a_wrong_file_the_limit_of_bytes_and_keys_that_expire_are_shown() -> None:
    document = registry()
    document["keys"]["shop"]["expires"] = "2030-01-01T00:00:00Z"
    memory, info = MemoryRegistry(document), RegistryInfo()
    info.show(memory)
    assert shown("onramp_registry_refused") == 0
    assert shown('onramp_ingest_key_expiry_timestamp_seconds{key="shop"}') == 1893456000
    memory.put({"keyz": {}})
    memory.refresh()
    info.show(memory)
    assert shown("onramp_registry_refused") == 1
    memory.put(registry())
    memory.refresh()
    info.show(memory)
    assert shown("onramp_registry_refused") == 0
    assert shown('onramp_ingest_key_expiry_timestamp_seconds{key="shop"}') == 0


def test_a_types_limits_are_shown_and_those_that_are_gone_are_0() -> None:
    limits = {"min_per_minute": 1, "max_per_minute": 2.5, "parked_share": 0.1}
    memory, info = MemoryRegistry({"event_types": {"watched": {"alerts": limits}}}), RegistryInfo()
    info.show(memory)
    name = 'onramp_ingest_event_type_{}{{event_type="watched"}}'
    assert {limit: shown(name.format(limit)) for limit in limits} == limits
    memory.put({"event_types": {"watched": {"alerts": {"max_per_minute": 3}}}})
    memory.refresh()
    info.show(memory)
    found = {limit: shown(name.format(limit)) for limit in limits}
    assert found == {"min_per_minute": 0, "max_per_minute": 3, "parked_share": 0}


@pytest.mark.parametrize(
    "limits",
    [
        {"min_per_minute": 2, "max_per_minute": 1},
        {"min_per_minute": 0},
        {"max_per_minute": float("inf")},
        {"max_per_minute": "many"},
        {"parked_share": 1},
        {"parked_share": -0.1},
        {"max_per_hour": 1},
    ],
)
def test_limits_that_mean_nothing_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Snapshot.model_validate({"event_types": {"a": {"alerts": limits}}})


def shown(series: str) -> float:
    (line,) = (line for line in exposition().decode().splitlines() if line.startswith(f"{series} "))
    return float(line.rpartition(" ")[2])


async def test_schemas_are_compiled_where_the_registry_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = threads_that_compile(monkeypatch)
    compiler, settings = Compiler(), IngestSettings()
    gateway = LocalGateway(settings, None)
    memory = MemoryRegistry({}, compiler)
    gateway.app = assemble(
        settings,
        sink=MemorySink(),
        budget=ByteBudget(2**20),
        registry=memory,
        allow_keyless=True,
        lifespan=gateway._lifespan,
        compiler=compiler,
    )
    gateway.client._transport.app = gateway.app  # type: ignore[attr-defined]
    memory.put({"event_types": {"order_placed": {"schema": {"required": ["amount"]}}}})
    compiled.clear()
    await asyncio.to_thread(memory.refresh)

    assert (await gateway.post(one())).status_code == 422
    assert (await gateway.post(one(amount=1))).status_code == 202
    await gateway.client.aclose()
    assert len(compiled) == 1
    assert threading.get_ident() not in compiled


def test_only_changed_schemas_among_a_thousand_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = threads_that_compile(monkeypatch)
    compiler, thousand = Compiler(), {f"type_{n}": {"const": n} for n in range(1000)}
    first, second = typed(thousand), typed(thousand | {"type_7": {"const": True}, "new": {"const": 7}})
    compiler(first)
    compiled.clear()
    compiler(second)
    assert len(compiled) == 1  # `new` is what `type_7` was
    compiler(typed(thousand | {"type_0": {"const": False}}))  # 0 == False, and it is another schema
    assert len(compiled) == 2

    # The one in force while the next one is read: a request between the two compiles nothing.
    assert compiler.for_snapshot(second).snapshot is second
    assert len(compiled) == 2


def typed(schemas: dict[str, Any]) -> Snapshot:
    return Snapshot.model_validate({"event_types": {name: {"schema": s} for name, s in schemas.items()}})


def threads_that_compile(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The thread of each compilation, as they happen."""
    compiled: list[int] = []
    compile_schema = type_schemas.compile_schema

    def count(*given: Any) -> Any:
        compiled.append(threading.get_ident())
        return compile_schema(*given)

    monkeypatch.setattr(type_schemas, "compile_schema", count)
    return compiled


async def test_a_key_is_found_without_a_look_at_the_others(make_gateway: MakeGateway) -> None:
    document = registry()
    document["keys"] |= {f"key-{n}": {"hashes": [{"sha256": f"{n:064x}"}]} for n in range(50)}
    gateway = make_gateway(document)
    keys = Counted(gateway.registry.snapshot().keys)
    object.__setattr__(gateway.registry.snapshot(), "keys", keys)

    assert (await send(gateway)).status_code == 202
    assert keys.seen == ["shop"]


class Counted(dict[str, Any]):
    """The requested keys; a read of all keys is recorded as well."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen: list[str] = []

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.append(key)
        return super().get(key, default)

    def keys(self) -> Any:
        self.seen.append("all")
        return super().keys()

    def __iter__(self) -> Any:
        self.seen.append("all")
        return super().__iter__()


async def test_gateway_refuses_events_and_is_not_ready_until_the_registry_is_read() -> None:
    log, settings, sink = MemoryLog(), IngestSettings(), MemorySink()
    unread = LogRegistry(log)
    gateway = LocalGateway(settings, None)
    gateway.app = assemble(
        settings,
        sink=sink,
        budget=ByteBudget(2**20),
        registry=unread,
        lifespan=gateway._lifespan,
        allow_keyless=True,
    )
    gateway.client._transport.app = gateway.app  # type: ignore[attr-defined]
    RegistryInfo().show(unread)

    answer = await gateway.post(one())
    assert answer.status_code == 503
    assert answer.json()["type"].endswith("registry_unread")
    assert "retry-after" in answer.headers
    ready = await gateway.client.get("/readyz")
    assert (ready.status_code, ready.json()["registry"]) == (503, "registry_unread")
    assert (await gateway.client.get("/healthz")).status_code == 200

    unread.refresh()
    assert (await gateway.client.get("/readyz")).status_code == 200
    assert (await gateway.post(one())).status_code == 202  # an empty registry, on this machine
    await gateway.client.aclose()


async def test_a_look_that_hangs_holds_up_nothing_that_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_REFRESH_SECONDS", 0.01)
    monkeypatch.setattr(app, "_POLL_SECONDS", 0.01)
    hanging, budget = Hanging({}), ByteBudget(7)
    watching = asyncio.create_task(app._watch(hanging, budget, Connections(1)))
    await until(lambda: shown("onramp_ingest_inflight_bytes_limit") == 7)
    assert hanging.looks == 1
    hanging.goes_on.set()
    await until(lambda: hanging.looks > 1)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


class Hanging(MemoryRegistry):
    """A read that takes as long as with an unreachable Kafka."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        super().__init__(document)
        self.goes_on.clear()
        self.looks = 0

    def refresh(self) -> bool:
        self.looks = getattr(self, "looks", 0) + 1
        self.goes_on.wait(60)
        return super().refresh()
