"""The page of the latency bench agrees with its result."""

import json

from loadtest import latency_page
from loadtest.pages import RESULTS


def test_the_committed_page_is_made_of_the_committed_result() -> None:
    told = json.loads((RESULTS / latency_page.RESULT).read_text("utf-8"))
    assert (RESULTS / "latency.md").read_text("utf-8") == latency_page.page(told)


def test_the_page_gives_each_spread_and_what_was_refused() -> None:
    spread = {"p50": 1.0, "p95": 2.0, "p99": 3.0, "max": 4_000.0}
    kinds = ("warm_request_to_row", "cold_request_to_row", "new_name_request_to_row", "warm_request")
    told = {f"{kind}_ms": spread for kind in kinds} | {
        "events": 10,
        "names": 2,
        "refused": 1,
        "rows_not_seen": 3,
        "command": "bench ",
        "machine": "m",
        "versions": {"python": "3"},
    }
    page = latency_page.page(told)
    assert page.count("| 1.0 | 2.0 | 3.0 | 4,000.0 |") == 4
    assert "10 events over 2 names, 1 refused, 3 rows not seen. `bench`: m; python 3." in page
