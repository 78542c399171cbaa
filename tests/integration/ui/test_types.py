"""The page of an event type: its versions in the registry's history, with their differences."""

import re
from collections.abc import Iterator

import pytest

from tests.fixtures.fix_postgres import Templates
from tests.fixtures.ui import UiService, serving
from tests.integration.admin.conftest import database_beside

HOSTILE = '"><img onerror>\u202e'
NUMBER = {"type": "object", "properties": {"amount": {"type": "number"}}}
TEXT = {"type": "object", "properties": {"amount": {"type": "string"}}}
CHANGES = (
    {"put": {"event_types": {"signup": {"owner": "web"}}}, "reason": "another type"},
    {"put": {"event_types": {"order_placed": {"owner": "shop", "schema": TEXT}}}, "reason": HOSTILE},
)


@pytest.fixture(scope="module")
def service(templates: Templates) -> Iterator[UiService]:
    known = {"event_types": {"order_placed": {"owner": "shop", "schema": NUMBER}}}
    with (
        database_beside(templates.server, templates.control) as dsn,
        serving(dsn, databases={"onramp": dsn}, known=known, changes=CHANGES) as found,
    ):
        yield found


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def test_a_type_shows_its_versions_with_what_differs_and_what_breaks(service: UiService) -> None:
    html = service.browser().log_in("vera").get("/types/order_placed").text
    versions = html[html.index('id="versions"') :]
    text = words(versions)
    assert "another type" not in text
    assert re.search(r"/schema/properties/amount/type &#34;number&#34; &#34;string&#34;", text)
    assert "breaking" in text
    assert versions.count("<details") == 2
    assert "<img" not in html
    assert "\u202e" not in html


def test_an_operator_of_some_events_sees_the_type_without_its_history(service: UiService) -> None:
    answer = service.browser().log_in("olga").get("/types/order_placed")
    assert answer.status_code == 200
    assert 'id="versions"' not in answer.text
