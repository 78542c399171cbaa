"""The wizard: from pasted samples to a table that takes events, or parks those that do not fit."""

import html
import re
from collections.abc import Iterator

import orjson
import pytest

from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database, Templates
from tests.fixtures.writer import execute, rows
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.inside import Browser, Inside, inside
from tests.integration.admin.test_samples_api import writing

SAMPLES = '{"order": "o-1", "amount": 12.5}\n{"order": "o-2", "amount": 7}\n{"order": "o-3", "amount": "x"}'
#: The answer of the second step: amount is a number, whatever was inferred.
COLUMNS = {"name0": "order", "type0": "text", "required0": "on", "name1": "amount", "type1": "numeric"}
TABLE = {"database": "onramp", "schema": "public", "table": "orders", "key": "order"}

LANDED = """
    INSERT INTO public.orders (_id, _timestamp, _version, _event_name, _received_at, _topic, _partition,
                               _offset, "order", amount)
    VALUES ('a', now(), '1', 'order_made', now(), 't', 0, 0, 'o-1', 12.5)
"""


@pytest.fixture
def service(migrated: Database, own_topics: HasBootstrap, templates: Templates) -> Iterator[Inside]:
    with (
        database_beside(templates.server, templates.control) as dsn,
        inside(dsn, {"onramp": migrated.dsn}, own_topics.bootstrap, preview_seconds=60) as found,
    ):
        yield found


def _begin(browser: Browser) -> str:
    """Paste samples; return the path of the draft."""
    first = browser.see("/types/new")
    answer = browser.send(first, "/types/new", name="order_made", samples=SAMPLES)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"]).removeprefix("/ui").removesuffix("/2")


def _fill(browser: Browser, draft: str, misfits: str) -> None:
    second = browser.see(f"{draft}/2")
    assert re.search(r'value="order".*value="amount"', second, re.DOTALL)
    sent = browser.send(second, f"{draft}/2", **COLUMNS, personal0="on", owner="shop", misfits=misfits)
    assert sent.headers["location"] == f"/ui{draft}/3", sent.text
    sent = browser.send(browser.see(f"{draft}/3"), f"{draft}/3", **TABLE)
    assert sent.headers["location"] == f"/ui{draft}/4", sent.text


def test_a_type_is_made_from_samples_and_misfits_are_parked(service: Inside, migrated: Database) -> None:
    browser = service.browser()
    draft = _begin(browser)
    _fill(browser, draft, "park")
    with writing(migrated.dsn):
        preview = browser.see(f"{draft}/4")
    assert "CREATE TABLE" in preview
    assert "2</span> of 3 samples would land" in preview
    assert "is not a number" in preview
    assert "o-1" not in preview  # it is personal
    assert rows(migrated.dsn, "SELECT to_regclass('public.orders')") == [(None,)]
    last = browser.see(f"{draft}/5")
    assert "Events that the columns refuse are parked." in last
    number = draft.rsplit("/", 1)[1]
    made = browser.send(last, f"/types/create/{number}", reason="a new shop")
    assert made.headers["location"] == f"/ui/types/made/order_made?draft={number}", made.text
    found = service.get("/v1/types/order_made")
    assert "schema" not in found
    assert (found["key"], found["personal"]) == ("/order", ["/order"])
    assert rows(migrated.dsn, "SELECT count(*) FROM public.orders") == [(0,)]
    shown = browser.see("/types/made/order_made", draft=number)
    assert "No row is in" in shown
    assert "http://gateway.example/v1/events" in shown
    assert orjson.dumps({"order": "text", "amount": 12.5}).decode() in html.unescape(shown)
    execute(migrated.dsn, LANDED)
    row = browser.see("/types/made/order_made")
    assert "99.9" in row
    assert "o-1" not in row


def test_back_and_a_restart_lose_no_input_and_a_failing_check_has_its_sql(service: Inside) -> None:
    browser = service.browser()
    draft = _begin(browser)
    _fill(browser, draft, "reject")
    assert "12.5" in browser.see(f"{draft}/1")
    assert 'value="reject" checked' in browser.see(f"{draft}/2")
    again = service.browser()
    assert 'value="orders"' in again.see(f"{draft}/3")
    sent = again.send(again.see(f"{draft}/3"), f"{draft}/3", **TABLE | {"schema": "shop"}, action="check")
    assert sent.headers["location"] == f"/ui{draft}/3"
    assert "CREATE SCHEMA" in again.see(f"{draft}/3")
    for number in ("%00", "nowhere"):
        assert again.client.get(f"/ui/types/new/{number}/3").status_code == 404
    other = service.of("otto").browser().client.get(f"/ui{draft}/3")
    assert other.status_code in {403, 404}


def test_a_registry_that_has_changed_since_is_named_before_the_type_is_made(service: Inside) -> None:
    browser = service.browser()
    draft = _begin(browser)
    _fill(browser, draft, "reject")
    put = service.ask(
        "PUT",
        "/v1/types/pay_made",
        content=orjson.dumps({"owner": "pay"}),
        params={"reason": "x"},
        headers={"if-match": "*"},
    )
    assert put.status_code == 200, put.text
    last = browser.see(f"{draft}/5")
    assert "The registry has changed since step 1" in last
    number = draft.rsplit("/", 1)[1]
    assert browser.send(last, f"/types/create/{number}", reason="ok").status_code == 303
    late = browser.send(last, f"/types/create/{number}", reason="ok")
    assert late.status_code == 412
