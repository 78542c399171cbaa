"""Holds and halts over HTTP: visibility by operator, and decisions that name the state that was read."""

from collections.abc import Iterator
from typing import Any

import pytest

from services.ops.operate import holds_sql
from services.writer.kafka.producer import Record, publish
from shared import wire
from shared.kafka_security import Brokers
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database, Templates
from tests.fixtures.silent_servers import black_holes
from tests.fixtures.writer import execute, rows
from tests.integration.admin.admin_service import refused
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.inside import Inside, inside

ORDERS = {"owner": "shop", "destinations": [{"schema": "public", "table": "orders"}]}
KNOWN = {"event_types": {"order_made": ORDERS, "order_lost": {}, "pay_made": {}}}
HOLDS = """
    INSERT INTO onramp.holds (kind, name, state, sqlstate) VALUES
        ('type', 'order_made', 'paused', NULL), ('type', 'pay_made', 'paused', NULL),
        ('table', 'public.orders', 'blocked', '55P03'), ('table', 'events.pay_made', 'blocked', '55P03');
    INSERT INTO onramp.halts (reason) VALUES ('the ledger of events.pay_made/0 is behind')
"""


@pytest.fixture
def waiting(migrated: Database, own_topics: HasBootstrap, templates: Templates) -> Iterator[Inside]:
    execute(migrated.dsn, HOLDS)
    with (
        database_beside(templates.server, "template0") as dsn,
        inside(dsn, {"onramp": migrated.dsn}, own_topics.bootstrap, KNOWN) as service,
    ):
        yield service


def _hold(service: Inside, name: str) -> dict[str, Any]:
    [found] = [hold for hold in service.get("/v1/holds")["holds"] if hold["name"] == name]
    return dict(found)


def _named(hold: dict[str, Any]) -> dict[str, Any]:
    return {name: hold[name] for name in ("database", "kind", "name")}


def test_hold_is_shown_only_to_operators_with_access_to_every_event_behind_it(waiting: Inside) -> None:
    def seen(name: str) -> set[str]:
        return {hold["name"] for hold in waiting.of(name).get("/v1/holds")["holds"]}

    assert seen("vera") == {"order_made", "pay_made", "public.orders", "events.pay_made"}
    assert seen("olga") == {"order_made", "public.orders"}
    hold = _hold(waiting, "pay_made")
    answer = waiting.of("olga").post("/v1/holds/resume", hold["etag"], **_named(hold))
    refused(answer, 404, "not_stored")
    answer = waiting.of("vera").post("/v1/holds/resume", hold["etag"], **_named(hold))
    refused(answer, 403, "not_allowed")


def test_a_decision_about_a_hold_names_the_state_that_was_read(waiting: Inside, migrated: Database) -> None:
    hold = _hold(waiting, "order_made")
    refused(waiting.of("otto").post("/v1/holds/resume", **_named(hold)), 428, "if_match_missing")
    tried = waiting.of("otto").post("/v1/holds/resume", hold["etag"], **_named(hold), dry_run=True)
    assert (tried.status_code, tried.json()["hold"]["state"]) == (200, "paused")
    resumed = waiting.of("olga").post("/v1/holds/resume", hold["etag"], **_named(hold))
    assert (resumed.status_code, resumed.json()["hold"]["state"]) == (200, "resumed")
    problem = refused(
        waiting.of("otto").post("/v1/holds/resume", hold["etag"], **_named(hold)), 412, "waiting_changed"
    )
    assert problem["changed_by"] == "olga"
    assert "olga" in problem["detail"]
    assert waiting.acts()[0] == ("olga", "resume", "type order_made in onramp")
    now = _hold(waiting, "order_made")
    refused(waiting.of("otto").post("/v1/holds/resume", now["etag"], **_named(now)), 409, "not_waiting")
    dead_lettered = waiting.of("otto").post("/v1/holds/dead-letter", now["etag"], **_named(now))
    assert dead_lettered.json()["hold"]["state"] == "dead_lettered"
    [(by, reason)] = rows(
        migrated.dsn, "SELECT dead_lettered_by, reason FROM onramp.holds WHERE state = 'dead_lettered'"
    )
    assert (by, reason) == ("otto", "it is fixed")


def test_the_report_shows_what_its_reader_sees_and_that_the_writer_is_down(waiting: Inside) -> None:
    whole = waiting.of("vera").get("/v1/waiting")
    assert (len(whole["holds"]), whole["is_whole"]) == (4, False)
    assert any("start it with `onramp writer`" in problem for problem in whole["problems"])
    [paused] = [hold for hold in whole["holds"] if (hold["kind"], hold["name"]) == ("type", "pay_made")]
    assert paused["next"] == "when an operator resumes it: `onramp types resume pay_made`"
    assert paused["etag"] == _hold(waiting, "pay_made")["etag"]
    some = waiting.of("olga").get("/v1/waiting")
    assert "pay_made" not in str(some)
    assert {hold["name"] for hold in some["holds"]} == {"order_made", "public.orders"}


def test_dead_lettering_a_type_hold_leaves_the_table_hold_of_the_same_name_blocked(
    waiting: Inside, migrated: Database
) -> None:
    execute(
        migrated.dsn, "INSERT INTO onramp.holds (kind, name, state) VALUES ('table', 'order_made', 'blocked')"
    )
    [hold] = [
        hold
        for hold in waiting.get("/v1/holds")["holds"]
        if (hold["kind"], hold["name"]) == ("type", "order_made")
    ]
    assert waiting.post("/v1/holds/dead-letter", hold["etag"], **_named(hold)).status_code == 200
    found = rows(migrated.dsn, "SELECT kind, state FROM onramp.holds WHERE name = 'order_made' ORDER BY 1")
    assert found == [("table", "blocked"), ("type", "dead_lettered")]


def test_a_halted_database_goes_on_as_an_operator_decides(waiting: Inside, migrated: Database) -> None:
    [of_olga] = waiting.of("olga").get("/v1/databases")["databases"]
    assert (of_olga["state"], of_olga["reason"]) == ("halted", None)
    [halted] = waiting.of("vera").get("/v1/databases")["databases"]
    assert "pay_made" in halted["reason"]
    assert [way["how"] for way in halted["ways"]] == ["recheck", "refill", "skip"]
    path = "/v1/databases/onramp/resolve"
    refused(waiting.of("olga").post(path, halted["etag"], how="skip"), 403, "not_allowed")
    refused(waiting.of("otto").post(path, how="skip"), 428, "if_match_missing")
    assert waiting.of("otto").post(path, halted["etag"], how="refill").status_code == 200
    refused(waiting.of("ada").post(path, halted["etag"], how="skip"), 412, "waiting_changed")
    assert rows(migrated.dsn, "SELECT resolution, resolved_by FROM onramp.halts") == [("refill", "otto")]
    execute(migrated.dsn, "DELETE FROM onramp.halts")
    refused(waiting.post(path, halted["etag"], how="skip"), 409, "not_waiting")


def test_a_halted_partition_goes_on_as_an_operator_decides(waiting: Inside, own_topics: HasBootstrap) -> None:
    partition = "events.order_made/7"
    halt = b'{"id": "1", "reason": "the log was cut", "since": "2026-01-01T00:00:00Z"}'
    over = halt.replace(b"}", b', "over": true}')
    brokers = Brokers(own_topics.bootstrap)

    def found() -> dict[str, Any]:
        return {each["partition"]: each for each in waiting.get("/v1/partitions")["partitions"]}

    try:
        publish(brokers, [Record(wire.SETTLED, f"halt/{partition}".encode(), halt)])
        etag = found()[partition]["etag"]
        asked = {"partition": partition, "how": "accept"}
        refused(waiting.of("otto").post("/v1/partitions/resolve", "x", **asked), 412, "waiting_changed")
        assert waiting.of("otto").post("/v1/partitions/resolve", etag, **asked).status_code == 200
        assert found()[partition]["answer"] == "accept"
        assert waiting.acts()[0][:2] == ("otto", "resolve halt by accept")
        assert waiting.of("olga").ask("GET", "/v1/partitions").status_code == 403
    finally:
        publish(brokers, [Record(wire.SETTLED, f"halt/{partition}".encode(), over)])
    refused(waiting.post("/v1/partitions/resolve", "*", **asked), 409, "not_waiting")


def test_sources_are_shown_with_their_setup(templates: Templates, migrated: Database) -> None:
    source = {"dsn_env": "ONRAMP_SOURCE_SHOP", "schemas": ["app"], "publish": "shop"}
    other = source | {"dsn_env": "ONRAMP_SOURCE_OTHER", "publish": "other"}
    with (
        database_beside(templates.server, "template0") as dsn,
        inside(
            dsn,
            {"onramp": migrated.dsn},
            known={"sources": {"shop": source, "other": other}},
            source_dsns={"ONRAMP_SOURCE_SHOP": migrated.dsn},
        ) as service,
    ):
        shown = service.of("vera").get("/v1/sources")["sources"]
        assert [(each["source"], each["state"]) for each in shown] == [
            ("other", "unreported"),
            ("shop", "unreported"),
        ]
        assert service.of("olga").ask("GET", "/v1/sources").status_code == 403
        checked = service.of("otto").get("/v1/sources/shop/check")
        assert not checked["holds"]
        assert any("onramp sources sql shop" in fact["fix"] for fact in checked["facts"])
        [missing] = service.get("/v1/sources/other/check")["facts"]
        assert "ONRAMP_SOURCE_OTHER" in missing["what"]
        assert service.of("otto").ask("GET", "/v1/sources/shop/sql").status_code == 403
        assert "CREATE PUBLICATION" in service.get("/v1/sources/shop/sql")["sql"]
        refused(service.ask("GET", "/v1/sources/none/sql"), 404, "not_stored")


def test_databases_that_hang_are_named_and_the_others_are_shown(
    migrated: Database, templates: Templates
) -> None:
    execute(migrated.dsn, HOLDS)
    with (
        black_holes(2) as (one, other),
        database_beside(templates.server, "template0") as dsn,
        inside(dsn, {"onramp": migrated.dsn, "one": one, "other": other}) as service,
    ):
        found = service.get("/v1/holds")
        assert (len(found["holds"]), sorted(found["unreached"])) == (4, ["one", "other"])
        states = {each["database"]: each["state"] for each in service.get("/v1/databases")["databases"]}
        assert states == {"onramp": "halted", "one": "unreachable", "other": "unreachable"}


def test_database_that_no_writer_has_prepared_has_no_holds(templates: Templates) -> None:
    with (
        database_beside(templates.server, "template0") as dsn,
        database_beside(templates.server, "template0") as empty,
        inside(dsn, {"onramp": empty}, known=KNOWN) as service,
    ):
        assert service.get("/v1/holds") == {"holds": [], "unreached": {}}
        for act in ("resume", "dead-letter"):
            for kind, name in (("type", "order_made"), ("table", "public.orders")):
                answer = service.post(
                    f"/v1/holds/{act}", '"0"', database="onramp", kind=kind, name=name, reason="a test"
                )
                refused(answer, 404, "not_stored")
        assert not holds_sql.resume("onramp", empty, "order_made")
