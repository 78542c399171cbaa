"""Each route declares its rights; a route without a declaration is for admins who see all events."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from starlette.requests import Request

from services.admin.api.app import api
from services.admin.api.jobs import require_same_database
from services.admin.api.journey import add_journey
from services.admin.api.operators import LOCAL, Caller, Operators
from services.admin.api.rights import NEEDS, require_right
from services.admin.api.statement import add_statement
from services.admin.dead_letters.ingester import IngesterStatus
from services.admin.registry_api.routes import add_registry
from services.admin.samples_api.routes import add_samples
from services.admin.settings import AdminSettings
from services.admin.statements.period import Statements
from services.admin.unsafe_setups import UnsafeSetupError, require_safe
from services.admin.waiting_api.routes import add_waiting
from services.ops.journey.finder import Finder
from services.ops.registry.database_addresses import KnownPlaces
from services.ops.registry.registry_reader import RegistryReader
from shared.errors import UserError
from shared.postgres.source_dsns import SourceDsns
from shared.registry.key_secrets import new_key
from shared.registry.log import MemoryLog
from shared.registry.log_registry import LogRegistry
from shared.registry.memory import MemoryRegistry
from shared.settings import KafkaSettings, RegistrySettings

SERVED = {"GET /healthz", "GET /readyz"}
OPERATORS = {"operators": {"ann": {"role": "admin", "hashes": [{"sha256": "ab" * 32}]}}}


def _service(operators: Operators | None = None) -> FastAPI:
    operators = operators or Operators(MemoryRegistry(), keyless=True)
    app = api("", {}, IngesterStatus(), operators, lifespan=lambda _: nullcontext())  # type: ignore[arg-type,return-value]
    desk = RegistryReader(KafkaSettings(), RegistrySettings(), KnownPlaces({}))
    add_registry(app, "", desk)
    add_samples(app, "", desk, preview_seconds=0)
    add_statement(app, Statements(desk.kafka.brokers, "", {}), MemoryRegistry())
    add_waiting(app, "", desk, SourceDsns(env={}), writers=["http://127.0.0.1:1"])
    add_journey(app, Finder(KafkaSettings().brokers, {}, ""))
    return app


def test_every_route_says_what_it_needs() -> None:
    routes = {f"{method} {_path(route)}" for route in _service().routes for method in _methods(route)}
    assert routes - SERVED - {"GET /openapi.json", "HEAD /openapi.json"} == set(NEEDS)


def _path(route: Any) -> str:
    """The path as the OpenAPI document has it, without the convertors of parameters."""
    path: str = getattr(route, "path_format", route.path)
    return path


def _methods(route: Any) -> set[str]:
    found: set[str] = route.methods
    return found


def test_an_event_stays_in_its_own_database() -> None:
    with pytest.raises(UserError, match="without the database"):
        require_same_database("main.shop.orders", {"main": ""})
    for to in (None, "shop.orders", "main.orders", "other.shop.orders"):
        require_same_database(to, {"main": ""})


def _ask(caller: Caller, path: str = "/v1/new") -> None:
    scope = {"type": "http", "method": "GET", "state": {"caller": caller}, "headers": []}
    route = type("Route", (), {"path_format": path})
    asyncio.run(require_right(Request(scope | {"route": route})))


@pytest.mark.parametrize(
    "caller", [Caller("v", "viewer"), Caller("o", "operator"), Caller("a", "admin", ("order_*",))]
)
def test_a_route_that_says_nothing_is_refused_to_all_but_admins_of_all_events(caller: Caller) -> None:
    with pytest.raises(UserError, match="the route "):
        _ask(caller)
    _ask(Caller("a", "admin"))
    _ask(LOCAL)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "192.0.2.1", "admin.example"])
def test_beyond_this_machine_it_starts_with_tls_and_without_a_development_key(host: str) -> None:
    with pytest.raises(UnsafeSetupError, match=r"(?s)development key.*cleartext"):
        require_safe(AdminSettings(host=host, dev_key=SecretStr("x")))
    with pytest.raises(UnsafeSetupError, match=r"^- HTTP would be in cleartext"):
        require_safe(AdminSettings(host=host))
    require_safe(AdminSettings(host=host, allow_cleartext_http=True))
    require_safe(AdminSettings(host=host, tls_cert_file=Path("cert.pem"), tls_key_file=Path("key.pem")))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_on_this_machine_it_starts_with_a_development_key(host: str) -> None:
    require_safe(AdminSettings(host=host, dev_key=SecretStr("x")))


def test_service_without_operators_answers_401_unless_keyless_is_allowed() -> None:
    assert _get(_service(Operators(MemoryRegistry())), "/v1/nothing")[0] == 401
    assert _get(_service(Operators(MemoryRegistry(), keyless=True)), "/v1/nothing")[0] == 404


def test_the_development_key_is_obeyed_beside_operators() -> None:
    key, other = new_key("operator")[0], new_key("operator")[0]
    for registered in ({}, OPERATORS):
        app = _service(Operators(MemoryRegistry(registered), dev_key=key))
        assert _get(app, "/v1/nothing", authorization=f"Bearer {key}")[0] == 404
        assert _get(app, "/v1/nothing", authorization=f"Bearer {other}")[0] == 401
        assert _get(app, "/v1/nothing")[0] == 401


def _get(app: FastAPI, path: str, **headers: str) -> tuple[int, Any]:
    async def asked() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(path, headers=headers)

    answer = asyncio.run(asked())
    return answer.status_code, answer.json()


@pytest.mark.parametrize("local", [True, False])
def test_requests_are_refused_with_503_until_the_registry_is_read(local: bool) -> None:
    log = MemoryLog()
    registry = LogRegistry(log)
    operators = Operators(registry, keyless=local)
    app = _service(operators)
    status, said = _get(app, "/v1/nothing")
    assert (status, said["type"]) == (503, "/errors/registry_unread")
    assert _get(app, "/readyz") == (503, {"ingester": "starting", "registry": "registry_unread"})
    assert _get(app, "/healthz")[0] == 200

    registry.refresh()
    operators.see()
    # Read, and there is no operator: open to this machine if it is reached from there alone.
    assert _get(app, "/v1/nothing")[0] == (404 if local else 401)
    change = {"format": 1, "after": -1, "actor": "a", "time": "2026-01-01T00:00:00Z", "put": OPERATORS}
    log.append(orjson.dumps(change))
    registry.refresh()
    assert _get(app, "/v1/nothing")[0] == 401


def test_a_service_whose_last_operator_was_revoked_before_anybody_asked_is_closed() -> None:
    registry = MemoryRegistry(OPERATORS)
    app = _service(Operators(registry, keyless=True))
    registry.put({"operators": {}})
    registry.refresh()
    assert _get(app, "/v1/nothing")[0] == 401
