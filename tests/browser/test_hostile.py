"""Texts of events are shown as texts, and every form works without JavaScript."""

from collections.abc import Callable

import pytest

from tests.browser.seeds import HOSTILE, group_of, keep, order
from tests.browser.tab import Tab
from tests.fixtures.ui import UiService
from tests.fixtures.writer import rows

pytestmark = pytest.mark.full


def test_hostile_texts_are_harmless(tab: Tab, service: UiService) -> None:
    texts = [*HOSTILE, "x" * 1_000_000]
    keep(
        service.dsn,
        [
            order(2_000 + n, text, column=text[:60], event_name=text[:60], destination=f"onramp.{text[:60]}")
            for n, text in enumerate(texts)
        ],
    )
    tab.page.on("dialog", lambda dialog: tab.findings.append(f"dialog: {dialog.message}"))
    tab.log_in("ada").go("/parked")
    groups = rows(service.dsn, "SELECT id FROM onramp_admin.groups WHERE event_name <> 'order_placed'")
    events = rows(service.dsn, "SELECT max(id) FROM onramp_admin.events WHERE topic = 't' GROUP BY group_id")
    for path in ["/parked", *(f"/groups/{number}" for (number,) in groups)]:
        require_harmless(tab.go(path))
    for (number,) in events:
        tab.go(f"/events/{number}/reveal")
        tab.page.get_by_label("Reason").fill(HOSTILE[0])
        tab.press("Reveal the event")
        require_harmless(tab)
    require_harmless(tab.go("/audit"))
    for text in HOSTILE:
        tab.page.get_by_label("Subject").fill(text.replace("\u0000", ""))
        tab.press("Filter")
        require_harmless(tab)


def require_harmless(tab: Tab) -> None:
    content = tab.page.content()
    assert tab.page.evaluate("document.querySelectorAll('#main img, #main script').length") == 0
    assert not {"\u202e", "\u001b", "\u0000"} & set(content)
    assert len(content) < 400_000
    width = tab.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1], tab.page.url


def test_every_form_works_without_javascript(tab_of: Callable[..., Tab], service: UiService) -> None:
    tab = tab_of(has_script=False).log_in("ada")
    group = group_of(service.dsn, "coupon")
    tab.go("/parked")
    tab.page.get_by_label(f"Select group {group}").check()
    tab.page.get_by_role("button", name="Assign…").click()
    tab.page.get_by_label("Assign to").fill("olga")
    tab.press(f"Assign group {group}")
    assert "olga" in tab.text()
    tab.page.get_by_label("Change").select_option("drop")
    tab.press("Add a step")
    tab.press("Remove step 2")
    tab.press("Rehearse 12 events")
    assert "Rehearsal" in tab.text("#rehearsal")
    tab.follow("Discard 12 events…")
    tab.page.get_by_label("Type the number of events").fill("12")
    tab.page.get_by_label("Reason").fill("a test")
    tab.press("Discard 12 events")
    assert "/ui/jobs/" in tab.page.url
    tab.follow("Audit log")
    assert "start discard" in tab.text()
