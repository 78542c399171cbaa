"""The page of sources: figures of the parts that were run, in the order of the page."""

import json
from pathlib import Path

from loadtest import cdc_page

ABOUT = {
    "at": "2026-01-01T00:00:00+00:00",
    "load_average_before": 0.1,
    "additions_s": 1.1,
    "machine": "a machine",
    "versions": {"onramp": "1"},
    "command": "make bench-cdc",
}
LATENCY = {"tables": 1, "commit_to_row_ms": {"p50": 1.0, "p99": 2_000.5}}


def test_the_page_has_what_was_measured(tmp_path: Path) -> None:
    cdc_page.keep("crash", {"flows_after_s": [1.5, 2.5]} | ABOUT, tmp_path)
    cdc_page.keep("latency-1", LATENCY | {"tables": 9} | ABOUT, tmp_path)
    cdc_page.keep("latency-1", LATENCY | ABOUT, tmp_path)
    page = (tmp_path / "cdc.md").read_text("utf-8")
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## latency-1", "## crash"]
    assert "| tables | 1 |" in page
    assert "| commit to row ms | p50 1.0, p99 2,000.5 |" in page
    assert "| flows after s | 1.5 to 2.5 |" in page
    assert "20 million additions 1.1 s" in page
    assert [*json.loads((tmp_path / "cdc.json").read_text("utf-8"))] == ["latency-1", "crash"]
