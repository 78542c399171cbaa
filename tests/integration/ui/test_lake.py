"""The page Lake and its sentence on the Overview: from background readings alone."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from services.admin.figures.lake_watch import LakeReading, LakeRow
from services.admin.figures.parts import Part
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.ui import Browser, UiService, serving
from tests.integration.admin.conftest import database_beside
from tests.integration.ui.test_completeness import HOSTILE, words


@pytest.fixture(scope="module")
def service(templates: Templates) -> Iterator[UiService]:
    with (
        database_beside(templates.server, templates.control) as dsn,
        database_beside(templates.server, templates.writer) as writer,
        serving(dsn, databases={"onramp": writer}) as found,
    ):
        yield found


@pytest.fixture
def browser(service: UiService) -> Iterator[Browser]:
    yield service.browser().log_in("vera")
    service.lake.reading = LakeReading(is_configured=False)


def show(service: UiService, *rows: LakeRow, down: str = "") -> None:
    now = datetime.now(UTC)
    parts = (Part("the lake service", "lake", is_up=not down, since=now, reason=down),)
    service.lake.reading = LakeReading(is_configured=True, at=now, tables=rows, parts=parts)


def test_tables_have_their_rows_files_lag_and_last_compaction(service: UiService, browser: Browser) -> None:
    now = datetime.now(UTC)
    flights = LakeRow("flights", 336_776, 365, 12, 90 << 20, 1_234, 3.0, last_compaction_at=now)
    show(service, flights, LakeRow("trains"))
    text = words(browser.get("/lake").text)
    assert "flights 336,776 365 12 90.0 1,234" in text
    assert "trains \u2013 \u2013" in text
    assert "onramp lake tables" in text
    overview = words(browser.get("/").text)
    assert "Lake : 2 tables with 336,776 rows, at most 3 s behind." in overview


def test_halted_late_and_unmaintained_tables_are_on_the_overview(
    service: UiService, browser: Browser
) -> None:
    show(service, LakeRow("flights", halted=HOSTILE), LakeRow("trains", error="disk full"), down="refused")
    html = browser.get("/lake").text
    assert "<img" not in html
    assert "Needs an operator" in html
    assert "does not answer" in words(html)
    overview = words(browser.get("/").text)
    assert "1 table of the lake takes no events." in overview
    assert "1 table of the lake is not maintained. disk full" in overview
    show(service, LakeRow("flights", behind_seconds=900.0))
    assert "The lake is 15 minutes behind." in words(browser.get("/").text)


def test_50_of_hundreds_of_tables_are_on_a_page(service: UiService, browser: Browser) -> None:
    show(service, *(LakeRow(f"table_{n:03}", error="disk full") for n in range(120)))
    first = browser.get("/lake").text
    assert first.count("<tr data-row") == 50
    assert "The first 50 of 120 tables are listed." in words(first)
    last = browser.get("/lake?cursor=table_099").text
    assert re.findall(r'<th scope="row">(table_\d+)', last) == [f"table_{n:03}" for n in range(100, 120)]
    assert re.findall(r'rel="next" href="([^"]+)"', first) == ["/ui/lake?cursor=table_049"]
    assert 'rel="next"' not in last


def test_without_a_lake_the_setting_is_named(browser: Browser) -> None:
    assert "ONRAMP_LAKE_URLS" in words(browser.get("/lake").text)


def test_an_operator_of_some_types_sees_their_tables_alone(service: UiService) -> None:
    show(service, LakeRow("order_placed", 5), LakeRow("secret_type", 5))
    text = words(service.browser().log_in("olga").get("/lake").text)
    assert "secret_type" not in text
    service.lake.reading = LakeReading(is_configured=False)
