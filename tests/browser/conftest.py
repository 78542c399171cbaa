"""A browser for the folder, and a service over a control database of the module's own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from stack.browser import Browser as Program
from tests.browser.planted_figures import KNOWN, plant_figures, plant_holds, plant_journey
from tests.browser.seeds import plant
from tests.browser.tab import Tab, chromium
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.ui import UiService, serving
from tests.integration.admin.conftest import database_beside


@pytest.fixture(scope="package")
def browser(browser_program: Program) -> Iterator[Browser]:
    with chromium(browser_program) as found:
        yield found


@pytest.fixture(scope="module")
def service(browser: Browser, templates: Templates) -> Iterator[UiService]:  # noqa: ARG001 - it skips
    """The UI with parked events of a few causes, a paused type, and figures; Kafka is down."""
    with (
        database_beside(templates.server, templates.control) as dsn,
        database_beside(templates.server, templates.writer) as writer,
        serving(dsn, databases={"onramp": writer}, known=KNOWN) as found,
    ):
        plant(dsn)
        plant_holds(writer, dsn)
        plant_journey(dsn)
        plant_figures(found)
        yield found


@pytest.fixture
def tab_of(browser: Browser, service: UiService) -> Iterator[Callable[..., Tab]]:
    """Open tabs, which are closed and checked at the end of the test."""
    tabs: list[Tab] = []

    def open_tab(**options: Any) -> Tab:
        tabs.append(Tab(browser, service, **options))
        return tabs[-1]

    yield open_tab
    for each in tabs:
        each.close()


@pytest.fixture
def tab(tab_of: Callable[..., Tab]) -> Tab:
    return tab_of()
