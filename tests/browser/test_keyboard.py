"""All by keyboard, and polls that do not disturb: focus and typed text survive."""

import pytest
from playwright.sync_api import expect

from tests.browser.seeds import group_of, keep, order
from tests.browser.tab import Tab
from tests.fixtures.ui import UiService

pytestmark = pytest.mark.full

#: The browser's and htmx's words for a request without an answer.
_LOST = ("ERR_FAILED", "Failed to fetch")
#: A page is polled every 5 s; expect() alone waits for no longer.
_POLLS_MS = 20_000


def test_pages_are_reached_and_rows_selected_by_keys(tab: Tab) -> None:
    tab.log_in("otto").go("/jobs")
    keyboard = tab.page.keyboard
    keyboard.press("g")
    keyboard.press("p")
    tab.page.wait_for_url("**/ui/parked")
    keyboard.press("j")
    first = tab.focused
    keyboard.press("j")
    assert tab.focused != first
    keyboard.press("k")
    assert tab.focused == first
    keyboard.press("x")
    assert tab.text("#selected") == "1"
    keyboard.press("?")
    expect(tab.find("#keys")).to_be_visible()
    keyboard.press("Escape")
    expect(tab.find("#keys")).to_be_hidden()
    keyboard.press("/")
    assert tab.focused == "search"
    keyboard.type("gj?x")
    assert tab.find("#search").input_value() == "gj?x", "keys are off while typing"
    assert tab.page.url.endswith("/ui/parked")


def test_a_poll_moves_neither_focus_nor_typed_text(tab: Tab, service: UiService) -> None:
    group = group_of(service.dsn, "amount")
    tab.log_in("otto").go(f"/groups/{group}")
    tab.page.get_by_label("Change").select_option("comma")
    tab.page.get_by_label("Field (JSON Pointer into the payload)").fill("/amounts")
    tab.find("#fix-json > summary").click()
    tab.find("#place-0").focus()
    before = tab.text("#main .facts")
    keep(service.dsn, [order(900, "7,00")])
    tab.page.wait_for_function(
        "(before) => document.querySelector('#main .facts').innerText !== before", arg=before
    )
    assert tab.focused == "place-0"
    assert tab.find("#place-0").input_value() == "/amounts"
    assert tab.page.get_by_label("Change").input_value() == "comma"
    assert tab.find("#fix-json").get_attribute("open") is not None


def test_a_page_says_that_its_figures_are_old(tab: Tab) -> None:
    tab.log_in("otto").go("/parked")
    tab.page.route("**/ui/parked", lambda route: route.abort())
    expect(tab.find("#lost")).to_contain_text("does not answer", timeout=_POLLS_MS)
    tab.findings = [each for each in tab.findings if not any(word in each for word in _LOST)]
    tab.page.unroute("**/ui/parked")
    expect(tab.find("#lost")).to_be_hidden(timeout=_POLLS_MS)
    tab.findings = [each for each in tab.findings if not any(word in each for word in _LOST)]
