"""Keys, grants, quotas and CORS."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from services.ingest.auth.quotas import Bucket
from services.ingest.settings import IngestSettings
from shared.registry.key_secrets import new_key
from tests.fixtures.ingest import body, envelope, one
from tests.unit.ingest.conftest import LocalGateway, MakeGateway

pytestmark = pytest.mark.anyio

KEY, HASH = new_key("shop")
OTHER_KEY, OTHER_HASH = new_key("shop")


def registry(**changes: Any) -> dict[str, Any]:
    return {"keys": {"shop": {"hashes": [{"sha256": HASH}]} | changes}}


async def send(gateway: LocalGateway, content: bytes = one(), key: str = KEY) -> httpx2.Response:
    return await gateway.post(content, authorization=f"Bearer {key}")


async def test_a_key_admits_and_names_the_producer(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry())

    assert (await send(gateway)).status_code == 202
    (record,) = gateway.sink.records("events.order_placed")
    assert dict(record.headers)["onramp-producer"] == b"shop"


async def test_without_keys_the_dev_profile_needs_none(gateway: LocalGateway) -> None:
    assert (await gateway.post(one())).status_code == 202
    assert (await send(gateway)).status_code == 401  # but a key that is wrong stays wrong


async def test_the_development_key(make_gateway: MakeGateway) -> None:
    key, _ = new_key("dev")
    gateway = make_gateway(dev_key=SecretStr(key))

    assert (await send(gateway, key=key)).status_code == 202
    assert (await send(gateway, key=KEY)).status_code == 401
    assert (await gateway.post(one())).status_code == 401


@pytest.mark.parametrize("empty", ["", " ", "\n"])
def test_empty_development_key_is_refused_and_not_treated_as_unset(
    monkeypatch: pytest.MonkeyPatch, empty: str
) -> None:
    monkeypatch.setenv("ONRAMP_INGEST_DEV_KEY", empty)
    with pytest.raises(ValueError, match="set and empty"):
        IngestSettings()


def test_a_setting_that_is_refused_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRAMP_INGEST_DEV_KEY", "canary-4711")
    monkeypatch.setenv("ONRAMP_INGEST_PORT", "canary-4711")
    with pytest.raises(ValueError, match="port") as refused:
        IngestSettings()
    assert "canary" not in str(refused.value)


async def test_a_key_is_never_in_an_answer_or_log(
    make_gateway: MakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = make_gateway(registry(events=["nothing"]))
    wrong = KEY[:-1] + ("A" if KEY[-1] != "A" else "B")
    for key in (KEY, wrong):
        answer = await send(gateway, key=key)
        assert key not in answer.text
    assert "onramp_shop_" not in str([vars(record) for record in caplog.records])


async def test_a_doubled_key_is_refused_even_if_one_is_good(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry())
    headers = [("content-type", "application/json"), *[("authorization", f"Bearer {KEY}")] * 2]
    answer = await gateway.client.post("/v1/events", content=one(), headers=headers)

    assert answer.status_code == 401


async def test_two_hashes_rotate_a_key(make_gateway: MakeGateway) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    gateway = make_gateway(registry(hashes=[{"sha256": HASH, "expires": soon}, {"sha256": OTHER_HASH}]))

    assert (await send(gateway, key=KEY)).status_code == 202
    assert (await send(gateway, key=OTHER_KEY)).status_code == 202


@pytest.mark.parametrize("where", ["key", "hash"])
async def test_an_expired_key_is_refused(make_gateway: MakeGateway, where: str) -> None:
    gone = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    expired = {"expires": gone} if where == "key" else {"hashes": [{"sha256": HASH, "expires": gone}]}
    gateway = make_gateway(registry(**expired))

    assert (await send(gateway)).status_code == 401


async def test_a_revoked_key_is_refused_after_the_next_refresh(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry())
    assert (await send(gateway)).status_code == 202
    gateway.registry.put({"keys": {"other": {"hashes": [{"sha256": OTHER_HASH}]}}})
    gateway.registry.refresh()

    assert (await send(gateway)).status_code == 401


async def test_revoking_the_last_key_of_production_opens_nothing(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry(), allow_keyless=False, profile="production")
    assert (await send(gateway)).status_code == 202
    gateway.registry.put({"keys": {}})
    gateway.registry.refresh()

    assert (await send(gateway)).status_code == 401
    assert (await gateway.post(one())).status_code == 401


async def test_a_grant_is_judged_per_item(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry(events=["order_*"]))
    answer = await send(gateway, body([envelope("a"), envelope("b", "refund_made")]))

    assert [each["status"] for each in answer.json()["results"]] == [202, 403]
    assert answer.json()["results"][1]["error"]["type"] == "/errors/not_granted"
    assert "events.refund_made" not in gateway.sink.topics


async def test_event_names_per_key_are_capped(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry(max_new_names=2))
    names = ["a", "b", "c", "a", "b"]
    answers = [await send(gateway, one(name=name)) for name in names]

    assert [answer.status_code for answer in answers] == [202, 202, 403, 202, 202]
    assert answers[2].json()["type"] == "/errors/too_many_names"


async def test_packets_need_their_own_grant(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry(destinations=["main.shop.*"]))

    def packet(schema: str) -> bytes:
        wanted = {"type": "postgres", "database": "main", "schema": schema, "table": "orders"}
        return body(envelope(f"to-{schema}") | {"pipeline_context": {"destinations": [wanted]}})

    assert (await send(gateway, packet("shop"))).status_code == 202
    refused = await send(gateway, packet("payroll"))
    assert refused.status_code == 403
    assert refused.json()["pointer"] == "/pipeline_context/destinations/0"
    for broken in ({}, {"destinations": []}, {"destinations": "x"}, [], 1):
        content = body(envelope() | {"pipeline_context": broken})
        assert (await send(gateway, content)).status_code == 422


async def test_quotas_are_429_for_that_key_alone(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(
        {
            "keys": {
                "shop": {"hashes": [{"sha256": HASH}], "events_per_second": 5},
                "shop2": {"hashes": [{"sha256": hashlib.sha256(b"onramp_shop2_" + b"x" * 43).hexdigest()}]},
            }
        }
    )
    statuses = [(await send(gateway, one(f"id-{n}"))).status_code for n in range(12)]
    last = await send(gateway)
    other = await send(gateway, key="onramp_shop2_" + "x" * 43)

    assert statuses[:10] == [202] * 10
    assert last.status_code == 429
    assert int(last.headers["retry-after"]) >= 1
    assert last.json()["accepted"] is False
    assert other.status_code == 202


async def test_byte_quotas(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(registry(bytes_per_second=1000))
    assert (await send(gateway, one(text="x" * 3000))).status_code == 202
    assert (await send(gateway)).status_code == 429


async def test_unparseable_body_counts_against_the_quota(make_gateway: MakeGateway) -> None:
    """Its check took as long as that of a valid event."""
    gateway = make_gateway(registry(bytes_per_second=1000))
    assert (await send(gateway, b"{" * 3000)).status_code == 400
    assert (await send(gateway)).status_code == 429


def test_a_bucket_fills_with_time() -> None:
    now = 0.0
    bucket = Bucket(10, lambda: now)
    assert bucket.delay() == 0
    bucket.consume(50)
    assert bucket.delay() == pytest.approx(3.1)
    now = 3.2
    assert bucket.delay() == 0


PAGE = "https://shop.example"


async def test_cors_is_for_listed_origins_alone(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(cors_origins=f"{PAGE}, https://other.example")
    ask = {"access-control-request-method": "POST"}
    good = await gateway.client.options("/v1/events", headers=ask | {"origin": PAGE})
    bad = await gateway.client.options("/v1/events", headers=ask | {"origin": "https://evil.example"})
    sent = await gateway.post(one(), origin=PAGE)
    refused = await gateway.post(b"nonsense", origin=PAGE)
    evil = await gateway.post(one(), origin="https://evil.example")

    assert good.status_code == 204
    assert good.headers["access-control-allow-origin"] == PAGE
    assert "authorization" in good.headers["access-control-allow-headers"]
    assert bad.status_code == 405
    assert "access-control-allow-origin" not in bad.headers
    assert sent.headers["access-control-allow-origin"] == PAGE
    assert refused.headers["access-control-allow-origin"] == PAGE
    assert "access-control-allow-origin" not in evil.headers


def test_settings_do_not_show_the_development_key() -> None:
    assert "secret-key" not in repr(IngestSettings(dev_key=SecretStr("secret-key")))
