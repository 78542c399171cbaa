"""The wizard in a browser: from pasted samples to a table and its first row."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.tab import Tab
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.ui import UiService, serving
from tests.fixtures.writer import execute, rows
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.test_samples_api import writing

_SAMPLES = '{"order": "o-1", "amount": 12.5}\n{"order": "o-2", "amount": "n/a"}'
_LANDED = """
    INSERT INTO public.refunds (_id, _timestamp, _version, _event_name, _received_at, _topic, _partition,
                                _offset, "order", amount)
    VALUES ('a', now(), '1', 'refund_made', now(), 't', 0, 0, 'o-1', 12.5)
"""


@pytest.fixture
def places(
    browser: Browser,  # noqa: ARG001 - it skips
    kafka: HasBootstrap,
    templates: Templates,
) -> Iterator[tuple[UiService, str]]:
    """The service, and the database that the wizard makes a table in."""
    with (
        database_beside(templates.server, templates.control) as dsn,
        database_beside(templates.server, templates.writer) as writer,
        serving(dsn, databases={"onramp": writer}, bootstrap=kafka.bootstrap, preview_seconds=60) as found,
        writing(writer),
    ):
        yield found, writer


def test_a_type_is_made_from_samples(
    browser: Browser, places: tuple[UiService, str], request: pytest.FixtureRequest
) -> None:
    service, dsn = places
    tab = Tab(browser, service)
    request.addfinalizer(tab.close)
    tab.log_in("ada").go("/types")
    tab.follow("New event type")
    tab.page.get_by_label("Name of the event").fill("refund_made")
    tab.page.get_by_label("Samples").fill(_SAMPLES)
    tab.press("Infer the columns")
    tab.page.get_by_label("Type of column 2").select_option("numeric")
    tab.page.get_by_label("Owner").fill("shop")
    tab.page.get_by_label("parked at the table").check()
    tab.press("Next")
    tab.page.get_by_label("Table").fill("refunds")
    tab.press("Next")
    expect(tab.find("#main")).to_contain_text("1 of 2 samples would land")
    tab.page.go_back()
    assert tab.page.get_by_label("Table").input_value() == "refunds"
    tab.press("Next")
    tab.follow("Next")
    tab.page.get_by_label("Reason").fill("a new table")
    tab.press("Create")
    tab.page.wait_for_url("**/types/made/refund_made*")
    expect(tab.find("#main")).to_contain_text("No row is in onramp.public.refunds yet")
    tab.require_accessible()
    assert rows(dsn, "SELECT count(*) FROM public.refunds") == [(0,)]
    execute(dsn, _LANDED)
    expect(tab.find("#main")).to_contain_text("A row is in onramp.public.refunds")
