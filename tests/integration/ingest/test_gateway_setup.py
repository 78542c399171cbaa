"""The gateway as a process: its registry, its profiles, its metrics, its logs."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from services.ingest import app
from services.ops.kafka_logs import KafkaLogs
from shared.kafka_security import Brokers
from shared.registry.key_secrets import new_key
from stack.registry import OwnRegistry
from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_stack import StartGateway
from tests.fixtures.ingest import JSON, body, envelope, one, until

pytestmark = pytest.mark.anyio

KEY, HASH = new_key("shop")


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=20) as client:
        yield client


async def post(
    client: httpx2.AsyncClient, service: Service, content: bytes, key: str | None = None
) -> httpx2.Response:
    headers = JSON | ({"authorization": f"Bearer {key}"} if key else {})
    return await client.post(f"{service.url}/v1/events", content=content, headers=headers)


REGISTRY = {
    "keys": {"shop": {"hashes": [{"sha256": HASH}], "events": ["setup_*"]}},
    "event_types": {"setup_typed": {"partitions": 5, "retention": "36h", "schema": {"required": ["amount"]}}},
}


async def retention(kafka: HasBootstrap, topic: str) -> str | None:
    async with KafkaLogs(Brokers(kafka.bootstrap)) as logs:
        return (await logs.settings([topic]))[topic].get("retention.ms")


async def test_the_registry_decides_and_a_revocation_works_within_two_seconds(
    kafka: HasBootstrap, start_gateway: StartGateway, client: httpx2.AsyncClient
) -> None:
    registry = await asyncio.to_thread(OwnRegistry, kafka.bootstrap, REGISTRY)
    service = start_gateway(kafka.bootstrap, registry.env)

    assert (await post(client, service, one(name="setup_a"))).status_code == 401
    assert (await post(client, service, one(name="setup_a"), KEY)).status_code == 202
    assert (await post(client, service, one(name="other"), KEY)).status_code == 403
    assert (await post(client, service, one(name="setup_typed"), KEY)).status_code == 422
    batch = [envelope(f"id-{n}", "setup_typed", amount=n) for n in range(40)]
    spread = (await post(client, service, body(batch), KEY)).json()["results"]
    assert {each["receipt"]["partition"] for each in spread} == {0, 1, 2, 3, 4}
    assert await retention(kafka, "events.setup_typed") == str(36 * 3_600_000)
    assert await retention(kafka, "events.setup_a") != str(36 * 3_600_000)

    with closing(registry.open()) as log:
        await asyncio.to_thread(log.append, b"keys: [this is no change set")

    async def reported() -> bool:
        return "registry record ignored" in service.log.read_text()

    await until(reported)
    assert (await post(client, service, one(name="setup_a"), KEY)).status_code == 202

    await asyncio.to_thread(registry.put, {"keys": {"other": {"hashes": [{"sha256": "0" * 64}]}}})

    async def refused() -> bool:
        return (await post(client, service, one(name="setup_a"), KEY)).status_code == 401

    # The gateway reads the registry each second, which leaves a second for the reading.
    assert app._POLL_SECONDS <= 1
    await until(refused)
    assert KEY not in service.log.read_text()
    assert HASH not in service.log.read_text()


async def test_production_refuses_to_start(start_gateway: StartGateway) -> None:
    env = {"ONRAMP_KAFKA_MIN_INSYNC": "1", "ONRAMP_INGEST_PROFILE": "production"}
    service = start_gateway("127.0.0.1:1", env, wait=False)
    await until(lambda: not service.child.running)

    assert service.child.exit_code == 1
    assert "ONRAMP_KAFKA_MIN_INSYNC of at least 2" in service.log.read_text()
    assert "Traceback" not in service.log.read_text()


async def samples(client: httpx2.AsyncClient, service: Service) -> dict[tuple[str, ...], float]:
    text = (await client.get(f"{service.url}/metrics")).text
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.full), "2"])
async def test_metrics_add_up_over_all_workers(
    kafka: HasBootstrap, start_gateway: StartGateway, client: httpx2.AsyncClient, workers: str
) -> None:
    service = start_gateway(kafka.bootstrap, {"ONRAMP_INGEST_WORKERS": workers})
    posts = []
    for n in range(40):  # connections of their own, so that both workers get some
        async with httpx2.AsyncClient() as another:
            posts.append(await post(another, service, one(f"id-{n}", "setup_counted")))
    await post(client, service, body([envelope("a", "setup_counted"), {}]))
    await post(client, service, b"nonsense")
    assert {answer.status_code for answer in posts} == {202}

    async def all_have_told() -> bool:  # what a worker counted reaches the others twice a second
        seen = await samples(client, service)
        requests = sum(n for (name, *_), n in seen.items() if name == "onramp_ingest_requests_total")
        return requests == seen["onramp_ingest_request_seconds_count",] == 42

    events = "onramp_ingest_events_total"
    await until(all_have_told)
    seen = await samples(client, service)
    assert seen[events, "accepted", "anonymous", "setup_counted"] == 41
    assert seen[events, "(unknown)", "anonymous", "bad_envelope"] == 1
    assert seen[events, "(unknown)", "anonymous", "bad_json"] == 1
    assert seen["onramp_ingest_requests_total", "202"] == 40
    assert seen["onramp_ingest_requests_total", "207"] == 1
    assert seen["onramp_ingest_requests_total", "400"] == 1
    assert seen["onramp_ingest_batch_events_sum",] == 42
    assert seen["onramp_ingest_kafka_send_seconds_count",] >= 1

    async def nothing_is_held() -> bool:  # written twice a second
        return (await samples(client, service))["onramp_ingest_inflight_bytes",] == 0

    await until(nothing_is_held)

    async def every_worker_is_looked_at() -> bool:
        seen = await samples(client, service)
        return seen.get(("onramp_processes", "gateway"), 0) == int(workers)

    await until(every_worker_is_looked_at)
    seen = await samples(client, service)
    assert seen["onramp_process_cpu_seconds_total", "gateway"] > 0.1 * int(workers)
    assert seen["onramp_process_resident_memory_bytes", "gateway"] > 20_000_000 * int(workers)
    assert seen["onramp_process_open_files", "gateway"] > 0
    assert seen["onramp_process_open_files", "gateway"] < seen["onramp_process_open_files_limit", "gateway"]
    assert seen["onramp_event_loop_delay_seconds_count", "gateway"] > 0
    assert [n for (name, *_), n in seen.items() if name == "onramp_build_info"] == [1]


async def test_logs_are_json_without_payload_values_and_not_a_flood(
    kafka: HasBootstrap, start_gateway: StartGateway, client: httpx2.AsyncClient
) -> None:
    service = start_gateway(kafka.bootstrap)
    for n in range(60):
        await post(client, service, one(f"id-{n}", "onramp_no", card="canary-4711"))
    await post(client, service, one("fine", "setup_logged", card="canary-4711"))

    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    rejected = [line for line in lines if line["message"] == "rejected"]
    assert 1 <= len(rejected) < 60
    assert rejected[0]["event_id"] == "id-0"
    assert rejected[0]["outcome"] == "reserved_event_name"
    assert rejected[0]["step"] == "check"
    assert "canary" not in service.log.read_text()
    (accepted,) = [line for line in lines if line["message"] == "accepted"]
    assert accepted["event_id"] == "fine"
    assert re.fullmatch(r"events\.setup_logged/[01]/\d+", accepted["receipt"])
    assert (accepted["step"], accepted["outcome"], accepted["producer"]) == ("send", "accepted", "anonymous")
    assert accepted["request_id"]


async def test_accepted_events_have_as_many_lines_as_are_set_and_the_rest_is_counted(
    kafka: HasBootstrap, start_gateway: StartGateway, client: httpx2.AsyncClient
) -> None:
    service = start_gateway(kafka.bootstrap, {"ONRAMP_INGEST_EVENT_LINES": "5"})
    await post(client, service, body([envelope(f"id-{n}", "setup_logged") for n in range(500)]))

    def said() -> list[dict[str, Any]]:
        return [json.loads(line) for line in service.log.read_text().splitlines()]

    accepted = [line["event_id"] for line in said() if line["message"] == "accepted"]
    assert accepted == [f"id-{n}" for n in range(0, 500, 100)]
    await until(
        lambda: [line["suppressed"] for line in said() if "suppressed" in line] == [{"accepted": 495}]
    )


async def test_no_lines_of_accepted_events_are_wanted(
    kafka: HasBootstrap, start_gateway: StartGateway, client: httpx2.AsyncClient
) -> None:
    service = start_gateway(kafka.bootstrap, {"ONRAMP_INGEST_EVENT_LINES": "0"})
    await post(client, service, one("fine", "setup_logged"))
    assert "setup_logged" not in service.log.read_text()
