"""Every page in both themes, narrow and wide: no finding of axe-core, and no sideways scroll."""

from collections.abc import Callable

import pytest

from tests.browser.seeds import group_of, rehearsed
from tests.browser.tab import Tab
from tests.fixtures.ui import UiService

pytestmark = pytest.mark.full


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 375, 1280, 1920])
def test_each_page_is_accessible(
    tab_of: Callable[..., Tab], service: UiService, theme: str, width: int
) -> None:
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
        f"/groups/{group}",
        f"/groups/{group}/decide/assign",
        f"/groups/{group}/discard",
        f"/groups/{group}/replay/{job}",
        f"/jobs/{job}",
        "/events/1/reveal",
    ]
