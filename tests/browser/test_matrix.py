"""Every page in both themes, narrow and wide: no finding of axe-core, and no sideways scroll."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.planted_figures import PACKETS, RECEIPT, plant_figures, plant_lake
from tests.browser.seeds import group_of, rehearsed
from tests.browser.tab import Tab
from tests.fixtures.ui import UiService

pytestmark = pytest.mark.full

#: Pages, and the part of each that is down.
_DOWN = {"/": "Writer", "/waiting": "Kafka", "/topics/order_placed": "Kafka"}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 375, 1280, 1920])
def test_each_page_is_accessible(
    tab_of: Callable[..., Tab], service: UiService, theme: str, width: int
) -> None:
    plant_lake(service)
    tab = tab_of(theme=theme, width=width)
    tab.go("/login").require_accessible()
    tab.log_in("ada")
    for path in paths(tab, service):
        tab.go(path)
        try:
            tab.require_accessible()
        except AssertionError as e:
            raise AssertionError(f"{path}: {e}") from None


def paths(tab: Tab, service: UiService) -> list[str]:
    """Return the pages of the sidebar, and those behind them."""
    group = group_of(service.dsn, "amount")
    job = rehearsed(service.dsn, group, landed=57, failed=3)
    entries = tab.page.eval_on_selector_all(
        "[data-go]", "all => all.map((each) => each.getAttribute('href'))"
    )
    return [
        *(each.removeprefix("/ui") for each in entries),
        "/hour",
        f"/tracers/day?entrance=kafka&destination={PACKETS}",
        f"/groups/{group}",
        f"/groups/{group}/decide/assign",
        f"/groups/{group}/discard",
        f"/groups/{group}/replay/{job}",
        f"/jobs/{job}",
        "/events/1/reveal",
        "/search",
        f"/search?q={RECEIPT}",
        "/types/new",
        "/types/order_placed",
        "/databases?checks=failing",
        "/transforms/flight_delays",
        "/transforms/bots/state/accept",
        "/sources/shop",
        "/reconciliation/1",
        "/waiting/holds/resume?database=onramp&kind=type&name=order_placed",
        "/keys/shop/rotate",
    ]


def test_a_part_that_is_down_is_named_on_the_page(tab: Tab, service: UiService) -> None:
    plant_figures(service, is_writer_down=True)
    tab.log_in("ada")
    for path, part in _DOWN.items():
        answer = tab.page.goto(f"/ui{path}")
        assert answer is not None
        assert answer.status == 200, path
        expect(tab.find(".banner.wait", has_text=part).first).to_contain_text("does not answer")
        tab.require_accessible()
    plant_figures(service)
