"""Tallies: plain counters in the request path, and their values on `/metrics`."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from services.ingest.http.admin_port import AdminPort
from services.ingest.http.connections import Connections
from services.ingest.observe import tallies
from services.ingest.observe.metrics import EVENTS, REGISTRY, EventCounts
from services.ingest.observe.page import exposition
from services.ingest.observe.tallies import CounterTally, HistogramTally
from services.ingest.request import BatchItem
from services.ingest.settings import IngestSettings
from services.ingest.sink import Receipt
from shared.envelope import Envelope, Metadata
from tests.fixtures.ingest import body, envelope, one
from tests.unit.ingest.conftest import MakeGateway

pytestmark = pytest.mark.anyio

BOUNDS = (0.5, 1, 5)
VALUES = st.lists(st.one_of(st.sampled_from([*BOUNDS, 0, 7]), st.floats(0, 10)), max_size=20)


def histogram() -> tuple[CollectorRegistry, Histogram]:
    registry = CollectorRegistry()
    return registry, Histogram("seconds", "Of something.", buckets=BOUNDS, registry=registry)


def shown(registry: CollectorRegistry) -> dict[str, float]:
    """All samples but for the times at which they were made."""
    lines = generate_latest(registry).decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in pairs if "_created" not in name}


@given(st.lists(VALUES, max_size=3))
def test_a_spread_is_what_the_histogram_would_have_seen(rounds: list[list[float]]) -> None:
    (ours, tallied), (theirs, observed) = histogram(), histogram()
    spread = HistogramTally(tallied, BOUNDS)
    for values in rounds:
        for value in values:
            spread.observe(value)
            observed.observe(value)
        spread.fold(0.0)

        expected = shown(theirs)
        assert shown(ours) == {name: pytest.approx(value) for name, value in expected.items()}


def test_a_value_above_all_bounds_is_counted() -> None:
    registry, tallied = histogram()
    spread = HistogramTally(tallied, BOUNDS)
    spread.observe(math.nextafter(BOUNDS[-1], math.inf))
    spread.fold(0.0)

    assert shown(registry)['seconds_bucket{le="5.0"}'] == 0
    assert shown(registry)['seconds_bucket{le="+Inf"}'] == shown(registry)["seconds_count"] == 1


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), max_size=20), max_size=3))
def test_a_count_is_what_the_counter_would_have_seen(rounds: list[list[str]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    counted = CounterTally(Counter("events", "Of a kind.", ["kind", "whose"], registry=ours))
    counter = Counter("events", "Of a kind.", ["kind", "whose"], registry=theirs)
    for labels in rounds:
        for label in labels:
            counted.add(label, "mine")
            counter.labels(label, "mine").inc()
        counted.fold(0.0)
        counted.fold(0.0)

        assert shown(ours) == shown(theirs)


async def test_a_request_is_shown_as_soon_as_it_is_answered(make_gateway: MakeGateway) -> None:
    gateway = make_gateway()
    labels = {"event_type": "tallied", "key": "anonymous", "outcome": "accepted"}
    for number in range(1, 4):
        assert (await gateway.post(one(f"id-{number}", "tallied"))).status_code == 202
        assert f'le="+Inf"}} {requests()}' in (await gateway.client.get("/metrics")).text
        exposition()
        assert REGISTRY.get_sample_value("onramp_ingest_events_total", labels) == number


async def test_unknown_event_names_share_a_label_and_landing_types_have_their_own(
    make_gateway: MakeGateway,
) -> None:
    gateway = make_gateway()
    made_up = [envelope(f"id-{n}", f"onramp_made_up_{n}") for n in range(600)]
    assert (await gateway.post(body(made_up))).status_code == 422
    assert (await gateway.post(one("id", "good_type"))).status_code == 202
    # What was accepted once keeps its label when it is rejected.
    gateway.sink.down = True
    assert (await gateway.post(one("id-2", "good_type"))).status_code == 503
    assert counted("good_type", "accepted") == 1
    assert counted("good_type", "kafka_unreachable") == 1
    assert counted("onramp_made_up_1", "reserved_event_name") == 0
    assert counted("(unknown)", "reserved_event_name") >= 600


def test_10_000_names_that_were_accepted_have_500_labels_and_each_is_counted() -> None:
    counts = EventCounts()
    for n in range(10_000):
        item = BatchItem(b"", None, Receipt("events.many", 0, n))
        metadata = Metadata(f"id-{n}", "2026-01-01T12:00:00Z", "1")
        item.envelope = Envelope(metadata, f"many_{n}", {})
        counts.count("key-of-many", [item])
    exposition()
    exposition()
    (events,) = EVENTS.collect()
    shown = {
        sample.labels["event_type"]: sample.value
        for sample in events.samples
        if sample.labels["key"] == "key-of-many" and sample.name.endswith("_total")
    }
    assert (len(shown), shown["(other)"], sum(shown.values())) == (501, 9_500, 10_000)


def test_a_new_series_is_at_0_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(tallies.time, "monotonic", lambda: now)
    registry = CollectorRegistry()
    counted = CounterTally(Counter("events", "Of a kind.", ["kind"], registry=registry))
    series = 'events_total{kind="new"}'
    counted.add("new")
    for now in (1000.0, 1030.0, 1059.0):  # noqa: B007 - the clock
        counted.fold(60.0)
        assert shown(registry)[series] == 0
    counted.add("new")
    now = 1060.0
    counted.fold(60.0)
    assert shown(registry)[series] == 2
    counted.add("new")
    counted.fold(60.0)
    assert shown(registry)[series] == 3


def counted(event_type: str, outcome: str) -> float:
    exposition()
    exposition()
    labels = {"event_type": event_type, "key": "anonymous", "outcome": outcome}
    return REGISTRY.get_sample_value("onramp_ingest_events_total", labels) or 0.0


def requests() -> float:
    exposition()
    return REGISTRY.get_sample_value("onramp_ingest_request_seconds_count") or 0.0


def test_connections_of_the_port_for_operators_are_not_counted_with_the_public_ones() -> None:
    class Open:
        def make_room(self) -> None: ...

    admin = AdminPort(IngestSettings(), {})._state["connections"]
    before = closed()
    for _ in range(admin.limit + 1):
        admin.add(Open(), "127.0.0.1")
    assert closed() == before
    public = Connections(1)
    for _ in range(3):
        public.add(Open(), "127.0.0.1")
    assert closed() == before + 2


def closed() -> float:
    exposition()
    exposition()
    name = "onramp_ingest_connections_closed_total"
    return sum(REGISTRY.get_sample_value(name, {"reason": r}) or 0.0 for r in ("replaced", "refused"))
