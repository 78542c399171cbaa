"""The page Waiting: the same as over HTTP, and each decision names its object, its count and its effect."""

import html
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
from psycopg2.extensions import connection

from services.ops.registry import checks
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database, Templates
from tests.fixtures.writer import execute, rows
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.inside import Inside, inside
from tests.integration.admin.test_waiting_api import HOLDS, KNOWN


@pytest.fixture
def waiting(migrated: Database, own_topics: HasBootstrap, templates: Templates) -> Iterator[Inside]:
    execute(migrated.dsn, HOLDS)
    with (
        database_beside(templates.server, "template0") as dsn,
        inside(dsn, {"onramp": migrated.dsn}, own_topics.bootstrap, KNOWN) as service,
    ):
        yield service


def test_holds_and_halts_are_shown_by_visible_events_and_the_resume_button_by_role(waiting: Inside) -> None:
    page = waiting.of("vera").browser().see("/waiting")
    for text in ("order_made", "pay_made", "Database onramp", "events.pay_made/0 is behind", "Refill"):
        assert text in page, text
    assert "start it with" in page  # the writer does not answer
    assert "Resume…" not in page
    some = waiting.of("olga").browser().see("/waiting")
    assert "order_made" in some
    assert "pay_made" not in some
    assert "Resume…" in some


def test_a_type_is_resumed_once_by_one_of_two_operators(waiting: Inside, migrated: Database) -> None:
    hold = {"database": "onramp", "kind": "type", "name": "order_made"}
    first, second = waiting.of("otto").browser(), waiting.of("ada").browser()
    pages = [each.see("/waiting/holds/resume", **hold) for each in (first, second)]
    assert "0 events wait there. The waiting events land in their order" in pages[0]
    done = first.send(pages[0], "/waiting/holds/resume", reason="fixed")
    assert (done.status_code, done.headers["location"]) == (303, "/ui/waiting")
    assert rows(migrated.dsn, "SELECT state FROM onramp.holds WHERE name = 'order_made'") == [("resumed",)]
    late = second.send(pages[1], "/waiting/holds/resume", reason="fixed")
    assert late.status_code == 412
    assert "otto" in late.text
    assert ("otto", "resume", "type order_made in onramp") in waiting.acts()


def test_a_name_in_a_command_to_copy_is_quoted_for_the_shell(waiting: Inside, migrated: Database) -> None:
    name = "public.a; $(id)"
    execute(
        migrated.dsn,
        "INSERT INTO onramp.holds (kind, name, state) VALUES ('table', 'public.a; $(id)', 'blocked')",
    )
    asked = {"database": "onramp", "kind": "table", "name": name}
    page = html.unescape(waiting.browser().see("/waiting/holds/dead-letter", **asked))
    assert f"onramp types park '{name}' --reason WHY" in page


def test_a_halted_database_is_refilled_from_the_page(waiting: Inside, migrated: Database) -> None:
    browser = waiting.of("otto").browser()
    page = browser.see("/waiting/databases/refill", database="onramp")
    assert "a table without a key gets events twice" in page
    assert browser.send(page, "/waiting/databases/refill", reason="restored").status_code == 303
    assert rows(migrated.dsn, "SELECT resolution, resolved_by FROM onramp.halts") == [("refill", "otto")]
    assert "An operator has decided: refill" in browser.see("/waiting")


def test_event_types_show_what_is_paused_and_their_tables(waiting: Inside) -> None:
    browser = waiting.of("otto").browser()
    page = browser.see("/types")
    assert all(name in page for name in ("order_made", "order_lost", "pay_made"))
    assert page.count("paused") == 2
    shown = browser.see("/types/order_made")
    assert "It is paused in onramp" in shown
    assert "Resume…" in shown
    assert "the table public.orders exists" in shown
    assert "pay_made" not in waiting.of("olga").browser().see("/types")
    assert waiting.of("olga").browser().client.get("/ui/types/pay_made").status_code == 404


def test_databases_show_their_halt_and_the_sql_of_what_is_missing(waiting: Inside) -> None:
    page = waiting.of("vera").browser().see("/databases")
    assert "halted" in page
    assert "CREATE TABLE" in page  # public.orders, which an event type names
    assert "events.pay_made" not in waiting.of("olga").browser().see("/databases")


def test_hundreds_of_tables_are_checked_with_one_connection_and_50_are_on_a_page(
    waiting: Inside, migrated: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = {
        f"bulk_{n:03}": {"destinations": [{"type": "postgres", "schema": "public", "table": f"bulk_{n:03}"}]}
        for n in range(120)
    }
    connections = []
    connected = checks.connected

    def counted(database: str, dsn: str) -> AbstractContextManager[connection]:
        connections.append(database)
        return connected(database, dsn)

    monkeypatch.setattr(checks, "connected", counted)
    with inside(waiting.dsn, {"onramp": migrated.dsn}, known={"event_types": types}) as service:
        browser = service.browser()
        page = browser.see("/databases")
        assert page.count("<details") == 50
        assert "120 tables of event types" in page
        (more,) = re.findall(r'rel="next" href="/ui([^"]+)"', page)
        assert browser.see(html.unescape(more)).count("<details") == 50
    assert connections == ["onramp"], "the second page is of the same reading"


def test_the_catalogue_of_errors_is_searched(waiting: Inside) -> None:
    page = waiting.of("olga").browser().see("/errors", q="if-match")
    assert "if_match_missing" in page
    assert "bad_json" not in page
    assert "docs/operating.md#an-event-is-too-large" in waiting.browser().see("/errors", kind="waiting")
