"""Pages in a browser: an operator logs in, opens parked events, rehearses a fix and replays them."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.seeds import group_of, rehearsed
from tests.browser.tab import Tab
from tests.fixtures.ui import UiService
from tests.fixtures.writer import rows

#: Milliseconds between polls of the pages below.
_INTERVAL_MS = 5_000
#: Counts polls that are sent and answered from here on.
_COUNT = """
    window.requests = window.polls = 0;
    document.addEventListener('htmx:before:request', () => { window.requests += 1; });
    document.addEventListener('htmx:after:request', () => { window.polls += 1; });
"""
_HIDE = "Object.defineProperty(document, 'hidden', {get: () => window.isHidden ?? false, configurable: true})"


def test_a_login_leads_back_to_the_page_that_was_asked_for(tab: Tab) -> None:
    tab.go("/audit")
    assert "/ui/login" in tab.page.url
    tab.page.get_by_label("Key of an operator").fill("wrong")
    tab.refused = {401}
    tab.press("Log in")
    expect(tab.page.get_by_role("alert")).to_contain_text("not valid")
    tab.log_in("ada").go("/audit")
    assert "set state acknowledged" in tab.text()
    tab.require_accessible()
    tab.page.get_by_role("button", name="Log out").click()
    assert "/ui/login" in tab.page.url


def test_groups_are_selected_and_acknowledged_together(tab: Tab, service: UiService) -> None:
    tab.log_in("otto").follow("is not a number")
    tab.page.wait_for_url("**/ui/groups/*")
    tab.go("/parked")
    assert "amount is not a number" in tab.text()
    tab.require_accessible()
    acknowledge = tab.page.get_by_role("button", name="Acknowledge…")
    expect(acknowledge).to_be_disabled()
    numbers = [group_of(service.dsn, column) for column in ("coupon", "placed_on")]
    for number in numbers:
        tab.page.get_by_label(f"Select group {number}").check()
    assert tab.text("#selected") == "2"
    acknowledge.click()
    expect(tab.page.locator(":focus")).to_have_text("Cancel")
    tab.press("Acknowledge 2 groups")
    tab.page.wait_for_url("**/ui/parked")
    tab.follow("Acknowledged")
    assert {f"group-{number}" for number in numbers} == {
        each.get_attribute("id") for each in tab.find("[data-row]").all()
    }
    assert rows(service.dsn, "SELECT count(*) FROM onramp_admin.acts WHERE act LIKE 'set state ack%'") == [
        (3,)
    ]


@pytest.mark.parametrize("reason", ["hidden", "selected"])
def test_polls_rest_in_a_hidden_tab_and_while_rows_are_selected(tab: Tab, reason: str) -> None:
    tab.page.clock.install()
    tab.page.add_init_script(_HIDE)
    tab.log_in("otto").go("/parked")
    tab.page.evaluate(_COUNT)
    tab.page.clock.run_for(_INTERVAL_MS)
    tab.wait_for("() => window.polls === 1")
    box = tab.find("[data-row] input").first
    if reason == "hidden":
        tab.page.evaluate("window.isHidden = true")
    else:
        box.check()
    tab.page.clock.run_for(5 * _INTERVAL_MS)
    if reason == "hidden":
        tab.page.evaluate("window.isHidden = false")
    else:
        box.uncheck()
    tab.page.clock.run_for(_INTERVAL_MS)
    tab.wait_for("() => window.polls > 1")
    assert tab.page.evaluate("[window.polls, window.requests]") == [2, 2]


def test_a_fix_is_typed_rehearsed_and_its_rehearsal_replayed(tab: Tab, service: UiService) -> None:
    group = group_of(service.dsn, "amount")
    tab.log_in("otto").go(f"/groups/{group}")
    expect(tab.find(".marked")).to_contain_text(['"amount": '])
    tab.require_accessible()
    tab.page.get_by_label("Change").select_option("comma")
    assert tab.page.get_by_label("Field (JSON Pointer into the payload)").input_value() == "/amount"
    tab.press("Add a step")
    tab.page.locator("#kind-1").select_option("default")
    tab.page.locator("#place-1").fill("/currency")
    tab.page.locator("#argument-1").fill("no JSON")
    tab.refused = {400, 422}
    tab.press("Rehearse 60 events")
    expect(tab.page.get_by_role("alert")).to_contain_text("step 2: the value is not JSON")
    tab.page.locator("#argument-1").fill('"EUR"')
    tab.press("Rehearse 60 events")
    tab.page.wait_for_url("**/ui/groups/*?rehearsed=*")
    [(fix,)] = rows(service.dsn, "SELECT fix::text FROM onramp_admin.jobs WHERE kind = 'rehearse'")
    assert fix == '[{"cast":"/amount","to":"number","decimal":","},{"default":"/currency","value":"EUR"}]'
    assert tab.page.locator("#argument-1").input_value() == '"EUR"'

    job = rehearsed(service.dsn, group, landed=57, failed=3)
    tab.go(f"/groups/{group}?rehearsed={job}")
    assert "is not a number as text with a decimal comma" in tab.text("#rehearsal")
    tab.follow("Replay 57 events…")
    assert "60 events of rehearsal" in tab.text()
    tab.page.get_by_label("Reason (it is logged)").fill("as rehearsed")
    tab.page.get_by_label("At most, events per second").fill("5")
    tab.press("Replay 60 events")
    tab.page.wait_for_url("**/ui/jobs/*")
    assert rows(
        service.dsn, "SELECT rehearsed, rate, reason, actor FROM onramp_admin.jobs WHERE kind = 'replay'"
    ) == [(job, 5, "as rehearsed", "otto")]
    tab.require_accessible()
    tab.follow("Cancel…")
    tab.press("Cancel the job")
    expect(tab.find("#main .pill").first).to_have_text("cancelling")


def test_a_discard_needs_the_number_of_events(tab: Tab, service: UiService) -> None:
    group = group_of(service.dsn, "payload")
    tab.log_in("otto").go(f"/groups/{group}")
    tab.follow("Discard 3 events…")
    tab.page.get_by_label("Type the number of events").fill("4")
    tab.page.get_by_label("Reason").fill("a test")
    tab.refused = {422}
    tab.press("Discard 3 events")
    expect(tab.page.get_by_role("alert")).to_contain_text("not the number")
    assert tab.page.get_by_label("Reason").input_value() == "a test"
    tab.page.get_by_label("Type the number of events").fill("3")
    tab.press("Discard 3 events")
    tab.page.wait_for_url("**/ui/jobs/*")
    assert rows(service.dsn, "SELECT counted FROM onramp_admin.jobs WHERE kind = 'discard'") == [(3,)]
    tab.follow("Jobs")
    assert "Discard" in tab.text()


def test_a_value_is_revealed_after_a_reason_which_is_recorded(
    tab_of: Callable[..., Tab], service: UiService
) -> None:
    tab = tab_of().log_in("ada")
    group = group_of(service.dsn, "amount")
    tab.go(f"/groups/{group}")
    assert "o-000059" not in tab.page.content()
    tab.follow("Reveal…")
    tab.page.get_by_label("Reason (it is logged)").fill("which amount?")
    tab.press("Reveal the event")
    assert '"order_id":"o-000059"' in tab.text("pre")
    assert tab.find("#main").get_attribute("hx-get") is None
    assert rows(service.dsn, "SELECT actor, reason FROM onramp_admin.acts WHERE act = 'reveal'") == [
        ("ada", "which amount?")
    ]
