"""The page of parked events: figures of the result, and none that it has not."""

from loadtest import errors_page

SPREAD = {"p50": 1.0, "p95": 2.0, "p99": 3.0, "max": 4.0}
JOB = {
    "counted": 10,
    "changed": 9,
    "failed": 1,
    "state": "done",
    "seconds": 2.0,
    "counting_s": 0.1,
    "per_s": 4,
}
RESULT = {
    "keep": {"kept_per_s": 12_345, "seconds": 80.0},
    "pages_ms": {"groups": SPREAD},
    "discard": JOB,
    "restore": JOB,
    "replay": JOB,
    "live": {"before_ms": SPREAD, "during_ms": SPREAD, "p99_ratio": 1.0, "replay": JOB},
    "admin_rss_mib": 200.4,
    "events": 10,
    "groups": 2,
    "bytes": 300,
    "machine": "a machine",
    "versions": {"onramp": "1"},
    "command": "make bench-errors ",
}


def test_the_page_has_what_was_measured() -> None:
    page = errors_page.page(RESULT)
    assert "| groups | 1.0 | 2.0 | 3.0 | 4.0 |" in page
    assert "kept 12,345 a second" in page
    assert "discard: 9 of 10 in 2.0 s" in page
    assert "typed-bad" not in page
    typed = {"with": [90.0, 99.0], "without": [100.0], "slower_percent": 5.5}
    assert "5.5 % slower with an admin service (90.0 to 99.0" in errors_page.page(RESULT | {"typed": typed})
