"""Requests the admin service refuses before any query: each response is a problem document with a fix."""

import asyncio
from contextlib import nullcontext
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from services.admin.api.app import api
from services.admin.api.operators import Operators
from services.admin.dead_letters.ingester import IngesterStatus
from services.admin.registry_api.routes import add_registry
from services.ops.registry.database_addresses import KnownPlaces
from services.ops.registry.registry_reader import RegistryReader
from shared.registry import Snapshot
from shared.registry.memory import MemoryRegistry
from shared.settings import KafkaSettings, RegistrySettings

CHANGE = {"params": {"reason": "x", "actor": "ann"}, "headers": {"if-match": "*"}}


def _service() -> FastAPI:
    """A service whose control database and Kafka are closed ports."""
    operators = Operators(MemoryRegistry(), keyless=True)
    app = api("", {}, IngesterStatus(), operators, lifespan=lambda _: nullcontext())  # type: ignore[arg-type,return-value]
    add_registry(app, "", RegistryReader(KafkaSettings(), RegistrySettings(), KnownPlaces({})))
    return app


def ask(method: str, path: str, **more: Any) -> httpx2.Response:
    async def asked() -> httpx2.Response:
        transport = httpx2.ASGITransport(_service())
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, **more)

    answer = asyncio.run(asked())
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code
    return answer


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/groups/1", "GET, PATCH"),
        ("/v1/registry", "GET, PUT"),
        ("/v1/types/order_placed", "DELETE, GET, PUT"),
        ("/v1/jobs", "GET, POST"),
        ("/healthz", "GET"),
    ],
)
def test_a_method_that_a_path_does_not_have_is_answered_with_all_that_it_has(path: str, allowed: str) -> None:
    answer = ask("OPTIONS", path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


async def _parts() -> Any:
    for _ in range(3):
        yield b" " * (1 << 19)


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/keys", "/v1/groups/1"])
def test_a_body_that_is_too_large_is_a_problem(path: str, *, is_chunked: bool) -> None:
    content = _parts() if is_chunked else b" " * (3 << 19)
    method = "PATCH" if path == "/v1/groups/1" else "POST"
    headers = {"content-type": "application/json", "if-match": "*"}
    answer = ask(
        method, path, content=content, headers=headers, params={"reason": "x"} if "keys" in path else {}
    )
    assert (answer.status_code, answer.json()["type"]) == (413, "/errors/body_too_large")


@pytest.mark.parametrize("name", ["%00", "a%00b", "a%20b", "%F0%9F%98%80"])
def test_a_name_that_no_topic_can_have_is_refused_by_name(name: str) -> None:
    assert ask("GET", f"/v1/topics/{name}/sample").status_code == 422
    changed = ask("PATCH", f"/v1/topics/{name}", json={"retention": "1d"}, **CHANGE)
    assert (changed.status_code, changed.json()["type"]) == (422, "/errors/bad_query")
    made = ask("POST", "/v1/topics", json={"topic": "a\0b"}, **CHANGE)
    assert made.status_code == 422


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_bytes", "9" * 30),
        ("max_bytes", 1 << 63),
        ("alerts", {"min_per_minute": "inf"}),
    ],
)
def test_a_number_that_no_record_can_hold_is_refused_by_its_place(field: str, value: Any) -> None:
    answer = ask("PUT", "/v1/types/order_placed", json={field: value}, **CHANGE)
    assert (answer.status_code, answer.json()["type"]) == (422, "/errors/registry_refused")
    assert answer.json()["errors"][0]["place"].startswith(f"body/{field}")


@pytest.mark.parametrize("field", ["max_new_names", "events_per_second", "bytes_per_second"])
@pytest.mark.parametrize("value", ["9" * 400, -1, float("inf")])
def test_a_key_with_such_a_number_is_none(field: str, value: Any) -> None:
    key = {"hashes": [{"sha256": "ab" * 32}], field: value}
    with pytest.raises(ValueError, match=field):
        Snapshot.model_validate({"keys": {"k": key}})


def test_a_change_whose_end_is_unknown_says_how_to_repeat_it() -> None:
    answer = ask("PUT", "/v1/types/order_placed", json={}, **CHANGE)
    assert answer.status_code == 503
    assert "repeat the change with the same If-Match" in answer.json()["detail"]


def test_a_request_that_cannot_be_understood_names_the_document_of_the_api() -> None:
    answer = ask("POST", "/v1/jobs", content=b"{", headers={"content-type": "application/json"})
    assert "/openapi.json" in answer.json()["fix"]
