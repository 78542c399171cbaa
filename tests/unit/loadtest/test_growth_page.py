"""The page of the growth bench agrees with its results."""

import json

from loadtest import growth_page
from loadtest.pages import RESULTS


def test_the_committed_page_is_made_of_the_committed_results() -> None:
    told = {p.stem: json.loads(p.read_text("utf-8")) for p in RESULTS.glob("growth-*.json")}
    assert told
    assert (RESULTS / "growth.md").read_text("utf-8") == growth_page.page(told)
