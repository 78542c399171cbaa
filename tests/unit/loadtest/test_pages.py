"""The pages agree with the committed results."""

import copy
from typing import Any

from loadtest import pages, writer_page

RUN: dict[str, Any] = {
    "file": "load-x-600s",
    "shape": "x",
    "via": "batch",
    "batch": 500,
    "connections": 16,
    "partitions": 6,
    "gateway_processes": 1,
    "executor_slots": 2,
    "seconds": 600.0,
    "at": "2026-11-21T10:00:00+00:00",
    "command": "python -m loadtest.run x",
    "target": "embedded stack on this machine: Kafka (3 brokers, replication 3), Postgres",
    "machine": "Linux, 2 cores",
    "load_average_before": 0.1,
    "cores_of_others": 0.02,
    "versions": {"onramp": "abc"},
    "run": "c0ffee",
    "offered_per_minute": 1000,
    "accepted_per_minute": 1000,
    "end_to_end_per_minute": 990,
    "bytes_of_data": 250,
    "bytes_on_the_wire": 380.0,
    "request_ms": {"p50": 1, "p95": 2, "p99": 3, "max": 4},
    "request_to_row_ms": {"p50": 1, "p95": 2, "p99": 30, "max": 4},
    "late_ms": {"p50": 1, "p95": 2, "p99": 3, "max": 4},
    "warm": {"request_ms": None, "request_to_row_ms": None},
    "errors": {},
    "processes": {"kafka": {"cpu_s": 1, "cores": 0.5, "us_per_packet": 3.0, "pss_mib": 300.0}},
    "verified": {
        "sound": True,
        "ok": 10,
        "unknown": 0,
        "refused": 0,
        "landed": 10,
        "lost": 0,
        "duplicate": 0,
        "phantom": 0,
        "unsettled": 0,
        "audit": {"balanced": True, "deep": False},
    },
    "over_time": {"offered": [5, 5, 0], "cores": {"kafka": [0.4, 0.6, 0.9], "gateway": [1.0, 1.0, None]}},
}


def of(**other: Any) -> dict[str, Any]:
    return {**copy.deepcopy(RUN), **other}


def step(offered: int, accepted: int, landed: int) -> dict[str, Any]:
    late = {"p99": 9000.0} if landed < offered else {"p99": 90.0}
    return {
        "offered_per_minute": offered,
        "accepted_per_minute": accepted,
        "landed_per_minute": landed,
        "request_ms": {"p99": 9.0},
        "request_to_row_ms": late,
    }


def test_the_committed_pages_are_made_of_the_committed_results() -> None:
    runs = pages.results()
    says = "the results have changed: run `python -m loadtest.pages`"
    assert (pages.RESULTS / "README.md").read_text("utf-8") == pages.results_page(runs), says
    assert pages.CAPACITY.read_text("utf-8") == pages.capacity_page(runs), says


def test_capacity_page_without_results_says_so() -> None:
    assert "No run of a minute or more has been committed yet" in pages.capacity_page([])


def test_a_run_that_is_not_sound_proves_no_capacity() -> None:
    bad = of(verified={**RUN["verified"], "sound": False, "lost": 1})
    assert "990" not in pages.capacity_page([bad])
    assert "**NOT SOUND**" in pages.results_page([bad])


def test_a_rate_that_did_not_become_rows_in_time_is_not_sustained() -> None:
    assert (
        "| 990 | 1,000 | yes | 10 | 250 | batch of 500 | 3 brokers, replication 3 |"
        in pages.capacity_page([RUN])
    )
    assert "| 900 | 1,000 | no |" in pages.capacity_page([of(end_to_end_per_minute=900)])


def test_capacity_page_names_the_first_bottleneck_from_the_steps() -> None:
    rising = [step(100, 100, 100), step(200, 200, 200)]
    writer = pages.capacity_page([of(steps=[*rising, step(400, 400, 210)])])
    assert "sustained up to **200 packets a minute**" in writer
    assert "at 400 a minute, was the writer" in writer
    assert "gateway 1.00, kafka 0.50" in writer
    gateway = pages.capacity_page([of(steps=[*rising, step(400, 250, 250)])])
    assert "at 400 a minute, was the gateway" in gateway
    slow = {**step(400, 400, 400), "request_ms": {"p99": 5000.0}}
    assert "at 400 a minute, was the gateway" in pages.capacity_page([of(steps=[*rising, slow])])
    cold = [step(50, 50, 20), *rising]  # the first step pays for a new table, and broke nothing
    assert "No limit was reached" in pages.capacity_page([of(steps=cold)])
    assert "No limit was reached" in pages.capacity_page([of(steps=rising)])
    late = [*rising, step(400, 400, 20), step(500, 500, 500)]  # the last one lands what the third left
    assert "sustained up to **200 packets a minute**" in pages.capacity_page([of(steps=late)])
    assert "at 400 a minute, was the writer" in pages.capacity_page([of(steps=late)])


WRITER: dict[str, Any] = {
    "case": "landing-250b",
    "events": 1_500_000,
    "value_bytes": 250.0,
    "partitions": 6,
    "slots": 2,
    "cold_start_s": 12.5,
    "whole_rows_per_s": 50_000,
    "warm_rows_per_s": 100_000,
    "copy_rows_per_s": [250_000, 260_000, 255_000],
    "warm_to_copy": 0.392,
    "outcomes": {"landed": 1_500_000},
    "cpu_s": {"java": 30.0, "python": 17.0, "postgres": 5.0},
    "warm_cpu_s": {"java": 20.0, "python": 9.0, "postgres": 4.0, "kafka": 1.0},
    "most_pss_mib": 1400.2,
    "at": "2026-11-21T10:00:00+00:00",
    "load_average_before": 0.1,
    "machine": "Linux, 2 cores",
    "versions": {"onramp": "abc"},
    "command": "python -m loadtest.bench_writer",
}


def test_the_writers_page_is_made_of_the_kept_results() -> None:
    says = "run `python -m loadtest.writer_page`"
    kept = (pages.RESULTS / "writer.md").read_text("utf-8")
    assert kept == writer_page.page(writer_page.results()), says


def test_the_writers_page_tells_cases_and_scale_apart() -> None:
    one_partition = WRITER | {"partitions": 1, "warm_rows_per_s": 60_000}
    text = writer_page.page([WRITER, one_partition, WRITER | {"case": "bad-1%"}])
    cases, _, scale = text.partition("## By partitions and task slots")
    assert cases.count("| landing-250b |") == 1
    assert (
        "| bad-1% | 1,500,000 | 250 | 6 | 2 | 12.5 | 50,000 | 100,000 | 250,000 to 260,000 | 0.39 |" in cases
    )
    assert scale.count("| landing-250b |") == 2
    assert "bad-1%" not in scale.partition("## How")[0]
    assert "No run" in writer_page.page([])
