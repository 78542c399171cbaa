"""Latencies count from the intended start, to the moment at which another connection saw the row."""

from pathlib import Path

import numpy as np
import orjson
import pytest

from loadtest import measure
from loadtest.client_claims import Claims
from loadtest.measure import Rows, Visibility
from loadtest.shapes import SINGLE, Shape, Step
from loadtest.target import Target
from loadtest.watch import Watch

BASE = 100_000_000
TEN_A_SECOND = Shape(name="x", via=SINGLE, size=15, steps=(Step(1, 10),))


def watch(seen: dict[int, list[tuple[float, int]]]) -> Watch:
    """A watch that has seen this, and was never started."""
    made = Watch(Target(url=""), "events.x", 2)
    made.progress.update(seen)
    return made


@pytest.fixture
def claims(tmp_path: Path) -> Claims:
    """Ten requests, due every 100 ms from second 5 on; a stall lets all begin at 6 and end at 6.5."""
    lines: list[list[object]] = [["lease", BASE, 10]]
    lines += [["ok", BASE + n, 1, 5 + n / 10, 6.0, 6.5, 40, None, None, None] for n in range(10)]
    (tmp_path / "h").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return Claims.read(tmp_path / "h")


def test_a_stall_counts_for_every_request_that_was_due_in_it(claims: Claims) -> None:
    found = measure.latencies(TEN_A_SECOND, claims, None)
    assert found["request_ms"] == {"p50": 1050.0, "p95": 1455.0, "p99": 1491.0, "max": 1500.0}
    assert found["late_ms"]["max"] == 1000.0  # the generator's own part of it is told
    assert found["request_to_row_ms"] is None


def test_warm_leaves_out_what_was_due_in_the_first_fifth(claims: Claims) -> None:
    assert measure.latencies(TEN_A_SECOND, claims, None)["warm"]["request_ms"]["max"] == 1300.0


def test_a_row_is_seen_when_the_ledger_was_first_seen_past_its_offset() -> None:
    visible = Visibility(watch({0: [(10.0, 3), (11.0, 5)], 1: [(12.0, 1)]}))
    seen = visible.of(np.array([0, 0, 0, 0, 1, 1, 7]), np.array([0, 2, 3, 5, 0, 1, 0]))
    assert [None if np.isnan(at) else at for at in seen] == [10.0, 10.0, 11.0, None, 12.0, None, None]


def test_rates_are_over_the_time_until_the_last_row(claims: Claims) -> None:
    rows = Rows(claims.requests.intended, claims.requests.ended, np.full(10, 11.0))
    found = measure.rates(TEN_A_SECOND, claims, rows)
    assert (found["offered_packets"], found["offered_per_minute"]) == (10, 600)
    assert found["accepted_per_minute"] == 400  # ten in 1.5 s
    assert found["end_to_end_per_minute"] == 100  # ten in 6 s
    assert found["seconds_behind_at_the_end"] == 5.1
    assert found["bytes_on_the_wire"] == 40


def test_cost_is_what_grew_while_it_was_watched() -> None:
    made = watch({})
    made.samples = [
        {"at": 1.0, "cpu": {"kafka": 5.0, "writer": 1.0}, "machine": 10.0, "pss": {"kafka": 100.0}},
        {"at": 2.0, "cpu": {"kafka": 5.5}, "machine": 11.0},
        {"at": 3.0, "cpu": {"kafka": 6.0, "locust": 0.5}, "machine": 14.0, "pss": {"kafka": 90.0}},
    ]
    found = measure.costs(made, 10)
    assert found["kafka"] == {"cpu_s": 1.0, "cores": 0.5, "us_per_packet": 100_000.0, "pss_mib": 100.0}
    assert found["locust"]["cpu_s"] == 0.5  # born meanwhile: all of it
    assert "writer" not in found
    assert measure.others(made) == 1.25


def test_over_time_counts_each_second_by_its_own_clock(claims: Claims) -> None:
    rows = Rows(claims.requests.intended, claims.requests.ended, np.linspace(7.0, 7.9, 10))
    line = measure.over_time(claims, rows, watch({}))
    assert line["offered"] == [10, 0, 0]
    assert line["accepted"] == [0, 10, 0]
    assert line["landed"] == [0, 0, 10]
    assert line["request_ms"]["p50"] == [1050.0, None, None]


def test_steps_are_measured_apart(claims: Claims) -> None:
    rising = Shape(name="x", via=SINGLE, size=15, steps=(Step(0.5, 10), Step(0.5, 10), Step(5, 1)))
    first, second = measure.steps(rising, claims, None)
    assert (first["request_ms"]["max"], second["request_ms"]["max"]) == (1500.0, 1000.0)
    assert first["accepted_per_minute"] == 600
