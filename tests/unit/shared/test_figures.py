"""`/figures` of the gateway and the writer: true at once, without an effect, of all workers, and bounded."""

from pathlib import Path

import httpx2
import msgspec
import pytest

from services.ingest.observe import figures
from services.ingest.observe.metrics import EVENTS_TALLY, REGISTRY, REQUEST_SECONDS_TALLY
from services.ingest.observe.page import exposition
from services.ingest.observe.tallies import fold
from services.writer.observe.database_stats import DatabaseSizes, DatabaseStats
from services.writer.observe.lag import Lag, types_of
from services.writer.observe.status import Status
from services.writer.observe.status_server import StatusServer
from shared import wire
from shared.figures import MAX_TYPES, OTHER, GatewayFigures, Spread, WriterFigures
from shared.kafka_read.offsets import Partition
from shared.path_steps import Step


def gateway() -> GatewayFigures:
    return msgspec.json.decode(figures.document(), type=GatewayFigures)


def accepted_of(name: str) -> int:
    return sum(
        n for event_type, outcome, n in gateway().events if (event_type, outcome) == (name, "accepted")
    )


def test_a_gateways_new_type_counts_at_once_and_reading_does_not_show_it_to_prometheus_earlier() -> None:
    EVENTS_TALLY.add("at_once", "shop", "accepted")
    EVENTS_TALLY.add("at_once", "till", "accepted")
    assert accepted_of("at_once") == accepted_of("at_once") == 2
    labels = {"event_type": "at_once", "key": "shop", "outcome": "accepted"}
    exposition(60.0)
    assert REGISTRY.get_sample_value("onramp_ingest_events_total", labels) == 0
    fold(0.0)
    assert REGISTRY.get_sample_value("onramp_ingest_events_total", labels) == 1
    EVENTS_TALLY.add("at_once", "shop", "accepted")
    assert accepted_of("at_once") == 3


def test_tracers_are_in_no_figure() -> None:
    EVENTS_TALLY.add(wire.PROBE_EVENT, "tracer", "accepted")
    assert accepted_of(wire.PROBE_EVENT) == 0
    tracers, orders = Partition(wire.topic_of(wire.PROBE_EVENT), 0), Partition("events.order_placed", 0)
    assert types_of({tracers: Lag(3, None), orders: Lag(4, None)}, 0.0).keys() == {"order_placed"}


def test_folded_request_times_are_counted_once() -> None:
    before = gateway().request_seconds
    REQUEST_SECONDS_TALLY.observe(0.003)
    fold(0.0)
    REQUEST_SECONDS_TALLY.observe(0.003)
    assert sum(gateway().request_seconds.since(before).counts) == 2


def test_any_worker_answers_for_all_also_for_those_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    EVENTS_TALLY.add("of_workers", "shop", "accepted")
    figures.publish()
    (own,) = tmp_path.glob("figures-*.json")
    content = own.read_bytes()
    (tmp_path / "figures-1-ended.json").write_bytes(content)
    assert accepted_of("of_workers") == 2
    own.unlink()
    figures.publish()
    assert not own.exists(), "nothing has changed"
    EVENTS_TALLY.add("of_workers", "shop", "accepted")
    figures.publish()
    assert own.exists()
    assert accepted_of("of_workers") == 3


def writer_of(totals: dict[tuple[str, str, str], int], status: Status | None = None) -> Status:
    status = status or Status(new_counter_seconds=60.0)
    status.update({"onramp": "landing"}, {})
    status.update_database("onramp", DatabaseStats(totals, {}, {}))
    return status


def test_a_writers_new_type_counts_at_once_and_its_gauges_are_those_of_the_metrics() -> None:
    status = writer_of({("events.a", "events.a", "landed"): 1})
    writer_of({("events.a", "events.a", "landed"): 5, ("events.b", "public.b", "parked"): 2}, status)
    status.update_lag({Partition("events.a", 0): Lag(5, None), Partition("events.a", 1): Lag(2, None)})
    status.update_sizes("onramp", DatabaseSizes(waiting=(7, None), outbox=3, size_bytes=99))
    status.update_waiting({"onramp": (4, None)})
    status.update_connections({"onramp": {"idle": 3, "active": 1}})
    status.update_unknown_databases({"gone": 6})
    server = StatusServer(status, "127.0.0.1", 0).start()
    try:
        page = httpx2.get(f"http://127.0.0.1:{server.port}/figures", timeout=20).content
        found = msgspec.json.decode(page, type=WriterFigures)
    finally:
        server.stop()
    assert sorted(found.events) == [("a", "onramp", "landed", 5), ("b", "onramp", "parked", 2)]
    assert found.types["a"].lag_events == 7
    database = found.databases["onramp"]
    assert (database.waiting_kafka, database.waiting_database, database.outbox) == (4, 7, 3)
    assert (database.connections, database.size_bytes) == (4, 99)
    assert (found.databases["gone"].state, found.databases["gone"].waiting_kafka) == ("not configured", 6)
    parked = {"event_type": "b", "outcome": "parked", "step": Step.PERSIST.value, "topic": "events.b"}
    labels = parked | {"database": "onramp", "table": "public.b"}
    status.page()
    assert status.metrics.registry.get_sample_value("onramp_writer_events_total", labels) == 0


def test_types_above_the_bound_are_one() -> None:
    many = MAX_TYPES + 20
    status = writer_of({(f"events.t{n}", f"events.t{n}", "landed"): 1 for n in range(many)})
    status.update_lag({Partition(f"events.t{n}", 0): Lag(1, None) for n in range(many)})
    found = status.figures()
    assert len(found.events) == len(found.types) == MAX_TYPES + 1
    assert (OTHER, "onramp", "landed", 20) in found.events
    assert found.types[OTHER].lag_events == 20
    assert len(msgspec.json.encode(found)) < 100_000


def test_spreads_of_other_bounds_are_not_mixed() -> None:
    assert Spread((1.0,), (2, 3)) + Spread((1.0,), (1, 1)) == Spread((1.0,), (3, 4))
    assert Spread((1.0,), (2, 3)) + Spread() == Spread((1.0,), (2, 3))
    assert Spread((1.0,), (2, 3)).since(Spread((1.0,), (5, 5))) == Spread((1.0,), (2, 3))
