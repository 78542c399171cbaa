"""An hour of figures: sums over services, restarts, gaps and bounds."""

import math

import pytest

from services.admin.figures.growth import ACCEPTED, LANDED, PARKED, GatewayGrowth, WriterGrowth
from services.admin.figures.hour import STEP_SECONDS, STEPS, Hour
from shared.figures import OTHER, GatewayFigures, WriterFigures


def gateway(accepted: int, instance: str = "a", uptime: float = 1000.0, name: str = "x") -> GatewayFigures:
    return GatewayFigures(instance=instance, uptime_seconds=uptime, events=[(name, "accepted", accepted)])


def writer(*events: tuple[str, str, str, int], instance: str = "w") -> WriterFigures:
    return WriterFigures(instance=instance, uptime_seconds=1.0, state="consuming", events=list(events))


def accepted(growth: GatewayGrowth, *readings: GatewayFigures, at: float) -> int:
    return sum(counts[ACCEPTED, ""] for counts, _ in growth.add(readings, at)[0])


def test_gateways_are_summed_and_the_past_before_the_first_reading_is_no_rate() -> None:
    growth = GatewayGrowth()
    assert accepted(growth, gateway(100), gateway(50, "b"), at=5) == 0
    assert accepted(growth, gateway(110), gateway(57, "b"), at=10) == 17
    assert accepted(growth, gateway(110), gateway(57, "b"), at=15) == 0


def test_a_gateway_that_restarted_has_grown_from_0() -> None:
    growth = GatewayGrowth()
    accepted(growth, gateway(100), at=5)
    assert accepted(growth, gateway(130, "restarted", uptime=3.0), at=10) == 130
    assert accepted(growth, gateway(131, "restarted", uptime=8.0), at=15) == 1


def test_gateways_behind_one_address_that_answer_in_turn_are_not_restarts() -> None:
    growth = GatewayGrowth()
    totals = [accepted(growth, gateway(1000 + n, "ab"[n % 2]), at=5.0 * n) for n in range(1, 9)]
    assert totals == [0, 0, 2, 2, 2, 2, 2, 2]


def test_a_gateway_under_two_addresses_counts_once() -> None:
    growth = GatewayGrowth()
    accepted(growth, gateway(1), gateway(1), at=5)
    assert accepted(growth, gateway(4), gateway(4), at=10) == 3


def test_growth_while_a_gateway_did_not_answer_is_spread_over_the_gap() -> None:
    growth, hour = GatewayGrowth(), Hour()
    for step, reading in enumerate([gateway(0), None, None, gateway(30)]):
        hour.advance(step)
        for counts, steps in growth.add([reading] if reading else [], step * STEP_SECONDS)[0]:
            hour.add("gateway", counts, steps)
    assert hour.total((ACCEPTED, "x")) == 30
    assert hour.rate("gateway", (ACCEPTED, "x")) == 30 / (3 * STEP_SECONDS)


def landed(growth: WriterGrowth, figures: WriterFigures, at: float) -> int:
    return sum(counts[LANDED, ""] for counts, _ in growth.add(figures, at)[0])


def test_a_writer_that_restarted_continues_with_the_databases_totals() -> None:
    growth = WriterGrowth()
    assert landed(growth, writer(("x", "db", "landed", 100)), 5) == 0
    assert landed(growth, writer(("x", "db", "landed", 120)), 10) == 20
    assert landed(growth, writer(instance="new"), 15) == 0, "it has read no database yet"
    assert landed(growth, writer(("x", "db", "landed", 150), instance="new"), 20) == 30


def test_a_database_that_is_new_or_was_restored_has_no_burst_and_a_new_type_counts() -> None:
    growth = WriterGrowth()
    landed(growth, writer(("x", "db", "landed", 100)), 5)
    more = writer(("x", "db", "landed", 100), ("y", "db", "landed", 7), ("x", "late", "landed", 5000))
    assert landed(growth, more, 10) == 7
    assert landed(growth, writer(("x", "late", "landed", 4000)), 15) == 0
    assert landed(growth, writer(("x", "late", "landed", 4010)), 20) == 10


def test_replays_land_and_refused_events_are_parked() -> None:
    growth = WriterGrowth()
    growth.add(writer(("x", "db", "landed", 0), ("x", "", "refused", 0)), 5)
    now = writer(("x", "db", "landed", 1), ("x", "db", "replayed", 2), ("x", "", "refused", 4))
    counts, _ = zip(*growth.add(now, 10)[0], strict=True)
    assert sum(each[LANDED, "x"] for each in counts) == 3
    assert sum(each[PARKED, "x"] for each in counts) == 4


def test_an_hour_keeps_its_last_steps_and_unknown_steps_are_gaps() -> None:
    hour = Hour()
    for step in range(STEPS + 5):
        hour.advance(step)
        if not 700 <= step < 712:
            hour.add("writer", {(LANDED, ""): 5.0})
    line = hour.line("writer", (LANDED, ""), 60)
    assert line.count(1.0) == 60 - line.count(None)
    assert hour.total((LANDED, "")) == 5.0 * (STEPS - 12)
    assert hour.rate("writer", (LANDED, "")) == 1.0
    assert hour.rate("gateway", (ACCEPTED, "")) is None


def test_steps_that_were_passed_over_are_empty() -> None:
    hour = Hour()
    hour.advance(0)
    hour.add("writer", {(LANDED, ""): 5.0})
    hour.advance(3 * STEPS)
    assert hour.total((LANDED, "")) == 0
    assert hour.rate("writer", (LANDED, "")) is None


def test_types_above_500_are_other_and_the_hour_is_below_16_mb() -> None:
    hour = Hour()
    hour.advance(0)
    hour.advance(1)
    metrics = ("accepted", "rejected", "landed", "duplicate", "parked", "database")
    for n in range(5000):
        hour.add("writer", {(metric, f"t{n}"): 1.0 for metric in metrics})
    assert len(hour.names(metrics)) == 501
    assert hour.total((LANDED, OTHER)) == 4500
    assert hour.rate("writer", (LANDED, "t4999")) == 4500 / STEP_SECONDS
    assert hour.bytes() < 16 << 20


def test_rates_are_the_same_by_type_and_in_total() -> None:
    hour = Hour()
    hour.advance(0)
    hour.advance(1)
    hour.add("writer", {(LANDED, "a"): 3.0, (LANDED, "b"): 4.0, (LANDED, ""): 7.0})
    rates = [hour.rate("writer", (LANDED, name)) for name in ("a", "b")]
    assert math.fsum(rate or 0.0 for rate in rates) == pytest.approx(hour.rate("writer", (LANDED, "")))


def test_a_line_is_that_of_its_step_also_if_it_is_read_later() -> None:
    hour = Hour()
    hour.advance(0)
    hour.add("writer", {(LANDED, "a"): 3.0})
    read_at_once, read_later = (hour.line("writer", (LANDED, "a")) for _ in range(2))
    assert read_at_once[-1] == 3.0 / STEP_SECONDS
    hour.add("writer", {(LANDED, "a"): 4.0})
    hour.advance(12)
    assert read_later == read_at_once
    assert len(hour.line("writer", (LANDED, "a"))) == 60
