"""Operator port of a gateway with two workers: operator pages are served on that port only."""

import httpx2
import pytest

from stack.ports import free_port
from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_stack import StartGateway
from tests.fixtures.ingest import JSON, one
from tests.fixtures.writer import eventually

PAGES = ("/metrics", "/figures", "/readyz", "/docs", "/openapi.json", "/redoc")


def get(port: int, path: str, **headers: str) -> httpx2.Response:
    return httpx2.get(f"http://127.0.0.1:{port}{path}", headers=headers, timeout=20)


@pytest.fixture
def ports(kafka: HasBootstrap, start_gateway: StartGateway) -> tuple[int, int]:
    admin = free_port()
    env = {"ONRAMP_INGEST_ADMIN_PORT": str(admin), "ONRAMP_INGEST_WORKERS": "2"}
    service: Service = start_gateway(kafka.bootstrap, env, wait=False)

    def is_ready() -> bool:
        service.check()
        try:
            return get(admin, "/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    eventually(is_ready)
    return service.port, admin


def test_pages_for_operators_are_on_their_port_alone(ports: tuple[int, int]) -> None:
    port, admin = ports
    eventually(lambda: _answers(port))
    for path in PAGES:
        assert get(port, path).status_code == 404, path
        assert get(port, f"{path}/").status_code == 404, path
        # A worker is ready a moment after it answers.
        eventually(lambda path=path: get(admin, path).status_code == 200)
        assert get(admin, path, host="evil.example").status_code == 403, path
    assert get(port, "/healthz").status_code == get(admin, "/healthz").status_code == 200

    assert httpx2.post(f"http://127.0.0.1:{admin}/v1/events", content=b"[]", timeout=20).status_code == 404

    for n in range(20):  # connections of their own, so that both workers get some
        url = f"http://127.0.0.1:{port}/v1/events"
        assert httpx2.post(url, content=one(f"id-{n}", "admin_counted"), headers=JSON).status_code == 202
    counted = 'onramp_ingest_requests_total{status="202"} 20.0'
    # What a worker counted reaches the other twice a second.
    eventually(lambda: all(counted in get(admin, "/metrics").text for _ in range(8)))
    accepted = ["admin_counted", "accepted", 20]
    eventually(lambda: all(accepted in get(admin, "/figures").json()["events"] for _ in range(8)))


def _answers(port: int) -> bool:
    try:
        return get(port, "/healthz").status_code == 200
    except httpx2.TransportError:
        return False
