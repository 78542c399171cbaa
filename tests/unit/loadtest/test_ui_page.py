"""The page of the web UI's bench agrees with its result, and names missed goals."""

from loadtest import ui_page

MS = {"p50": 5.0, "p95": 8.0, "p99": 9.0, "max": 12.0}
FAST = {"ms": MS, "cpu_ms": 4.0, "first_bytes": 150_000, "later_bytes": 9_000}
RESULT = {
    "types": 500, "partitions": 6, "events": 1_000_000, "rows": 1_000_000, "command": "make bench-ui",
    "at": "t", "load_average_before": 1, "load_average_after": 2, "machine": "m", "versions": {"x": "1"},
    "idle_percent": {"0": 1.0, "10": 3.5}, "admin_rss_mib": 200,
    "pages": {"overview": FAST, "parked": {**FAST, "cpu_ms": 25.0, "later_bytes": 30_000}},
    "statement": {"databases": 3, "partitions": 9_000, "ms": MS, "cpu_ms": 400.0, "unevaluated": ["Kafka"]},
    "journeys": {"by receipt": {"ms": MS, "not_landed": 0}},
}  # fmt: skip


def test_a_page_names_the_goals_that_it_misses() -> None:
    page = ui_page.page(RESULT)
    assert "| overview | 5.0 | 8.0 | 4.0 | 150.0 | 9.0 | – |" in page  # noqa: RUF001
    assert "| parked | 5.0 | 8.0 | 25.0 | 150.0 | 30.0 | cpu, later bytes |" in page
    assert "3.5 % of a core with 10 tabs that poll (goal 5 %)" in page
    assert (
        "9,000 partitions in all: p50 5 ms, max 12 ms (goal 2,000 ms), CPU 400 ms; not evaluated: Kafka"
        in page
    )
