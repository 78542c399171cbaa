"""The story of the web UI on a real stack, by keyboard; and again while the admin service is killed twice."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.keyboard import Keyboard
from tests.browser.real_stack import running
from tests.browser.story import Story
from tests.browser.tab import Tab

pytestmark = [pytest.mark.full, pytest.mark.timeout(1_800)]


@pytest.fixture
def story(browser: Browser, tmp_path: Path) -> Iterator[Story]:
    with running(tmp_path) as stack, closing(Tab(browser, stack)) as tab:
        yield Story(stack, Keyboard(tab))


@pytest.mark.parametrize("has_kills", [False, True], ids=["undisturbed", "killed-twice"])
def test_events_flow_are_set_up_and_fixed_by_keyboard(story: Story, *, has_kills: bool) -> None:
    story.log_in()
    story.see_flights()
    story.send_the_first_order()
    story.make_the_table()
    story.see_the_first_row()
    story.send_wrong_orders()
    story.open_the_group()
    story.rehearse()
    if has_kills:
        story.kill_the_admin_service()
    story.see_the_rehearsal()
    # Slow enough to be under way when the service is killed.
    story.replay(rate=100 if has_kills else None)
    if has_kills:
        story.kill_the_admin_service("replay")
    story.see_the_replay()
    story.discard_and_restore_the_rest()
    story.resume()
    story.stop_the_database()
    story.reconcile()
