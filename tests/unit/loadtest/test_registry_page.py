"""The page of the registry's bench agrees with its results."""

import json

from loadtest import registry_page
from loadtest.pages import RESULTS


def test_the_committed_page_is_made_of_the_committed_results() -> None:
    told = {
        p.stem.removeprefix("registry-"): json.loads(p.read_text("utf-8"))
        for p in RESULTS.glob("registry-*.json")
    }
    assert told
    assert (RESULTS / "registry.md").read_text("utf-8") == registry_page.page(told)


def test_a_range_is_its_lowest_to_its_highest_and_a_spread_names_each() -> None:
    about = {"command": "c", "at": "t", "load_average_before": 1, "load_average_after": 2, "machine": "m"}
    result = about | {"versions": {"x": "1"}, "read_s": [1.5, 2.5], "gateway_ms": {"p50": 3.0, "p99": 9.0}}
    page = registry_page.page({"read": result})
    assert "| read s | 1.5 to 2.5 |" in page
    assert "| gateway ms | p50 3.0, p99 9.0 |" in page
    assert "`c`, t. Load average 1 before it, 2 after it. m; x 1." in page
