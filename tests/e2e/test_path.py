"""The path of an event on real services: HTTP in, rows out, and parked events with their reason."""

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx2
import psutil
import pytest
from aiokafka import AIOKafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from loadtest import pages, report, run
from loadtest.shapes import RISING, named
from loadtest.target import Target
from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.scenes import Scene, python_workers
from tests.fixtures.writer import CONTEXT, event, eventually, rows


@pytest.fixture
def scene(
    writer: Service,
    gateway: Service,
    kafka: HasBootstrap,
    postgres: HasDsn,
    tmp_path_factory: pytest.TempPathFactory,
) -> Scene:
    """An event name of one test on the shared stack; starts no writer."""

    def none(*_: object, **__: object) -> Service:
        raise AssertionError("these tests share the writer")

    writer.check()
    return Scene(
        start_writer=none,
        bootstrap=kafka.bootstrap,
        dsn=postgres.dsn,
        gateway=gateway.url,
        folder=tmp_path_factory.mktemp("scene"),
    )


def _counted(scene: Scene) -> dict[str, int]:
    return dict(
        rows(
            scene.dsn,
            "SELECT outcome, sum(events)::int FROM onramp.totals WHERE topic = %s GROUP BY 1",
            scene.topic,
        )
    )


def _all_settled(scene: Scene) -> None:
    eventually(lambda: scene.landed() >= scene.accepted)
    eventually(lambda: scene.group() == scene.settled())
    assert scene.landed() == scene.accepted


def test_a_posted_event_is_a_row(scene: Scene) -> None:
    scene.send(1)
    _all_settled(scene)
    assert scene.query("SELECT payload, _topic FROM TABLE") == [({"n": 0}, scene.topic)]


def test_a_batch_of_thousands_is_as_many_rows_in_order(scene: Scene) -> None:
    for _ in range(8):
        scene.send(1_000)
    _all_settled(scene)
    assert _counted(scene) == {"landed": 8_000}
    steps = scene.query(
        "SELECT (payload->>'n')::int - lag((payload->>'n')::int) "
        "OVER (PARTITION BY _partition ORDER BY _offset) FROM TABLE"
    )
    assert [step for (step,) in steps if step is not None and step < 0] == []


def test_record_without_envelope_is_parked_with_its_reason_and_other_events_land(scene: Scene) -> None:
    junk = f"no json, {scene.name}".encode()
    scene.produce(event("before", scene.name), junk, event("after", scene.name))
    eventually(lambda: scene.landed() == 2)
    (kept,) = eventually(lambda: scene.parked(junk))
    assert kept.error["code"] == "no_envelope"
    assert (kept.error["topic"], kept.error["offset"]) == (scene.topic, 1)
    eventually(lambda: scene.group() == {0: 3})


def test_record_without_the_pipeline_header_neither_lands_nor_is_parked(scene: Scene) -> None:
    value = event("foreign", scene.name)
    scene.produce(value, headers=[])
    scene.produce(value, headers=[("context", b'{"consumer":{"type":"other"}}')])
    scene.produce(
        event("ours", scene.name), headers=[("context", b'{ "consumer": {"type": "data_pipeline"} }')]
    )
    eventually(lambda: scene.group() == {0: 3})
    assert scene.query("SELECT _id FROM TABLE") == [("ours",)]
    assert scene.parked(value) == []


def test_header_repeated_in_a_record_takes_its_last_value(scene: Scene) -> None:
    other = ("context", b'{"consumer":{"type":"other"}}')
    scene.produce(event("not-ours", scene.name), headers=[*CONTEXT, other])
    scene.produce(event("ours", scene.name), headers=[other, *CONTEXT])
    eventually(lambda: scene.group() == {0: 2})
    assert scene.query("SELECT _id FROM TABLE") == [("ours",)]


def test_tombstone_is_parked_and_the_next_event_lands(scene: Scene) -> None:
    scene.produce(None, event("after", scene.name))
    eventually(lambda: scene.landed() == 1)
    eventually(lambda: scene.group() == {0: 2})
    assert [r for r in scene.parked(None) if r.error["topic"] == scene.topic]


def test_aborted_transactions_land_nothing_and_their_markers_are_passed(scene: Scene) -> None:
    scene.produce(event("plain", scene.name))

    async def transactions() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=scene.bootstrap, transactional_id=scene.name)
        await producer.start()
        try:
            for event_id, commits in (("aborted", False), ("committed", True), ("aborted-too", False)):
                await producer.begin_transaction()
                await producer.send_and_wait(
                    scene.topic, event(event_id, scene.name), partition=0, headers=CONTEXT
                )
                await (producer.commit_transaction() if commits else producer.abort_transaction())
        finally:
            await producer.stop()

    asyncio.run(transactions())
    eventually(lambda: scene.group() == {0: 7} == scene.settled())
    assert scene.query("SELECT _id FROM TABLE ORDER BY 1") == [("committed",), ("plain",)]


def test_batches_share_their_python_workers_and_with_them_their_connections(
    scene: Scene, writer: Service
) -> None:
    scene.send(1)
    eventually(lambda: scene.landed() == 1)
    before = set(python_workers(writer))
    assert {worker.environ().get("ARROW_DEFAULT_MEMORY_POOL") for worker in before} == {"system"}
    assert before
    for n in range(2, 5):
        scene.send(1)
        eventually(lambda n=n: scene.landed() == n)  # type: ignore[misc]
    assert set(python_workers(writer)) == before


def test_the_writer_shows_its_driver_its_jvm_and_its_workers(scene: Scene, writer: Service) -> None:
    def shown() -> dict[str, float]:
        text = httpx2.get(f"{writer.url}/metrics", timeout=60).text
        samples = [s for f in text_string_to_metric_families(text) for s in f.samples]
        return {f"{s.name}{sorted(s.labels.values())}": s.value for s in samples}

    scene.send(50)
    _all_settled(scene)
    eventually(lambda: shown().get("onramp_processes['spark worker']", 0) >= 2)  # and who forks them
    found = eventually(lambda: (s := shown())["onramp_writer_slot_seconds_total[]"] > 0 and s)
    driver, jvm = psutil.Process(writer.pid), psutil.Process(writer.pid).children()[0]
    assert found["onramp_process_start_timestamp_seconds['jvm']"] == pytest.approx(jvm.create_time(), abs=2)
    begun = found["onramp_process_start_timestamp_seconds['driver']"]
    assert begun == pytest.approx(driver.create_time(), abs=2)
    assert found["onramp_process_resident_memory_bytes['jvm']"] > found["onramp_writer_jvm_heap_bytes[]"] > 0
    assert found["onramp_writer_jvm_heap_bytes[]"] <= found["onramp_writer_jvm_heap_limit_bytes[]"]
    assert found["onramp_writer_slots[]"] >= 1
    assert found["onramp_event_loop_delay_seconds_count['driver']"] > 0
    assert any(n.startswith("onramp_writer_jvm_collections_total") and v > 0 for n, v in found.items())


@pytest.mark.full
def test_without_a_writer_the_gateway_goes_on_accepting_and_all_lands_when_it_returns(
    scene: Scene, writer: Service
) -> None:
    writer.stop()
    try:
        scene.send(500)
        assert scene.landed() == 0
    finally:
        writer.start()
        writer.wait_ready()
    _all_settled(scene)


@pytest.mark.full
def test_a_rising_load_is_followed_to_its_rows(
    scene: Scene, gateway: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Run `loadtest.run rising` briefly on this stack."""
    target = Target(url=gateway.url, bootstrap=scene.bootstrap, dsn=scene.dsn)
    rising = named(RISING, 2, batch=1)
    rising = replace(rising, steps=rising.steps[:8], breaks=600.0)  # to 1,300 a second
    monkeypatch.setattr("sys.argv", ["run", RISING, "--out", str(tmp_path)])
    result = run.run_and_report(target, rising, report.arguments(""), keep=True)
    assert result["verified"]["sound"]
    still = result["stand_still"]
    assert 0 < still["due_s"] <= result["request_to_row_ms"]["max"] / 1000 + 0.001
    assert len(result["steps"]) == 8
    assert "Rows stood still for " in pages.results_page([result])
