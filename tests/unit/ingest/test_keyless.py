"""Without keys, programs of this machine are accepted, and web pages in its browser are refused."""

import httpx2
import pytest

from services.ingest.auth.loopback import is_loopback
from tests.fixtures.ingest import JSON, one
from tests.unit.ingest.conftest import LocalGateway, MakeGateway
from tests.unit.ingest.test_senders import KEY, registry

pytestmark = pytest.mark.anyio

EVIL = "https://evil.example"


async def post(gateway: LocalGateway, **headers: str) -> httpx2.Response:
    return await gateway.client.post("/v1/events", content=one(), headers=JSON | headers)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8080", "LocalHost:8080", "[::1]:8080", "127.8.8.8"])
async def test_programs_of_this_machine_come_in(gateway: LocalGateway, host: str) -> None:
    assert (await post(gateway, host=host)).status_code == 202


async def test_any_web_page_could_post(gateway: LocalGateway) -> None:
    answer = await post(gateway, host="127.0.0.1:8080", origin=EVIL)

    assert answer.status_code == 403
    assert answer.json()["type"] == "/errors/cross_origin"
    assert answer.json()["accepted"] is False
    assert gateway.produced == 0


@pytest.mark.parametrize(
    "origin", ["null", "http://localhost:3000", "http://127.0.0.1.evil.example:8080", "localhost:8080", ""]
)
async def test_a_page_from_elsewhere_is_foreign(gateway: LocalGateway, origin: str) -> None:
    assert (await post(gateway, host="localhost:8080", origin=origin)).status_code == 403
    assert gateway.produced == 0


async def test_pages_of_our_own_and_listed_ones_come_in(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(cors_origins="http://localhost:3000")
    for origin in ("http://localhost:3000", "http://127.0.0.1:8080"):
        assert (await post(gateway, host="127.0.0.1:8080", origin=origin)).status_code == 202


@pytest.mark.parametrize(
    "host",
    ["evil.example:8080", "localhost.evil.example", "10.0.0.1", "127.0.0.1.nip.io", "localhost:80.example"],
)
async def test_dns_rebinding_leads_nowhere(gateway: LocalGateway, host: str) -> None:
    own = f"http://{host}"  # to the browser the page's own origin, by which it may read the answer
    assert (await post(gateway, host=host, origin=own)).status_code == 403
    assert (await post(gateway, host=host)).status_code == 403
    assert gateway.produced == 0


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/metrics", "/readyz", "/errors/bad_json", "/no"])
async def test_no_page_is_read_by_a_rebound_name(gateway: LocalGateway, path: str) -> None:
    assert (await gateway.client.get(path, headers={"host": "evil.example"})).status_code == 403


async def test_with_keys_host_and_origin_do_not_matter(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry())
    proxied = {"host": "events.example", "origin": EVIL}
    assert (await post(gateway, authorization=f"Bearer {KEY}", **proxied)).status_code == 202
    assert (await gateway.client.get("/healthz", headers=proxied)).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "10.0.0.1", ""])
@pytest.mark.parametrize("profile", ["dev", "production"])
async def test_a_gateway_without_keys_admits_no_sender_unless_it_may(
    make_gateway: MakeGateway, host: str, profile: str, caplog: pytest.LogCaptureFixture
) -> None:
    closed = make_gateway(allow_keyless=False, host=host, profile=profile)
    for _ in range(2):
        answer = await post(closed, host="127.0.0.1:8080")
        assert (answer.status_code, answer.json()["type"]) == (401, "/errors/unauthenticated")
    assert closed.produced == 0
    told = [each.message for each in caplog.records if "ONRAMP_ALLOW_KEYLESS" in each.message]
    assert len(told) == 1
    opened = make_gateway(allow_keyless=True, host=host, profile=profile)
    assert (await post(opened, host="127.0.0.1:8080")).status_code == 202


async def test_a_gateway_whose_registry_lost_its_keys_admits_no_sender(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry(), allow_keyless=False)
    gateway.registry.put({})
    gateway.registry.refresh()
    assert (await post(gateway)).status_code == 401


async def test_an_open_gateway_is_still_closed_to_foreign_pages(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(host="0.0.0.0")
    assert (await post(gateway, host="events.lan", origin="http://events.lan")).status_code == 202
    assert (await post(gateway, host="events.lan", origin=EVIL)).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "192.168.0.1", "gateway", "127.0.0.1.nip.io"])
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)
