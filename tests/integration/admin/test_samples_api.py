"""Samples over HTTP: inferred columns, previewed rows, and a valid event next to failed ones."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest

from services.admin.store.ingester_sql import IngesterSession
from services.writer.model.routes import Routes
from services.writer.replay.rehearse import Rehearsal
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database, Templates
from tests.fixtures.writer import database_of, envelope, execute, rows
from tests.integration.admin.admin_service import refused
from tests.integration.admin.conftest import Stage, database_beside
from tests.integration.admin.inside import Inside, inside
from tests.integration.admin.parked_samples import parked

SAMPLES = [
    '{"order": "o-1", "amount": 12.500000000000000000001, "mail": "ann@example.com"}',
    '{"order": "o-2", "amount": 7, "mail": "bob@example.com"}',
]
SCHEMA = {
    "type": "object",
    "required": ["order", "amount"],
    "properties": {"order": {"type": "string"}, "amount": {"type": "number"}, "mail": {"type": "string"}},
}
ORDERS = {"schema": "public", "table": "orders", "create": True}
TYPE = {"owner": "shop", "schema": SCHEMA, "destinations": [ORDERS], "personal": ["/mail"]}


@pytest.fixture
def service(migrated: Database, own_topics: HasBootstrap, templates: Templates) -> Iterator[Inside]:
    with (
        database_beside(templates.server, templates.control) as dsn,
        inside(dsn, {"onramp": migrated.dsn}, own_topics.bootstrap, preview_seconds=60) as found,
    ):
        yield found


@contextmanager
def writing(dsn: str) -> Iterator[None]:
    """Have a writer answer previews while the block runs."""
    stopped = threading.Event()
    rehearsal = Rehearsal(database_of(dsn), may_land=lambda: True)

    def run() -> None:
        while not stopped.wait(0.05):
            rehearsal.run(Routes("onramp"))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _preview(service: Inside, **asked: Any) -> dict[str, Any]:
    answer = service.post("/v1/previews", name="order_made", event_type=TYPE, **asked)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_columns_are_inferred_from_pasted_samples_and_from_events(service: Inside, stage: Stage) -> None:
    events = [envelope(f"e-{n}", stage.name, text.encode()).decode() for n, text in enumerate(SAMPLES)]
    other = envelope("e-9", "other", b'{"x": 1}').decode()
    asked = {"name": stage.name, "samples": [*SAMPLES, *events, other, "no json"]}
    inferred = service.of("vera").ask("POST", "/v1/types/infer", json=asked).json()
    assert (inferred["samples"], inferred["skipped"], inferred["topic"]) == (4, 2, None)
    assert [(each["name"], each["type"], each["is_required"]) for each in inferred["columns"]] == [
        ("order", "text", True),
        ("amount", "numeric", True),
        ("mail", "text", True),
    ]
    assert "ann@example.com" not in str(inferred)
    stage.send(*(event.encode() for event in events))
    from_topic = service.of("vera").ask("POST", "/v1/types/infer", json={"name": stage.name}).json()
    assert (from_topic["schema"], from_topic["topic"]) == (inferred["schema"], stage.partition.topic)
    hidden = service.of("olga").ask("POST", "/v1/types/infer", json={"name": stage.name})
    refused(hidden, 404, "not_stored")


def test_samples_are_shown_as_rows_of_a_table_that_does_not_exist(
    service: Inside, migrated: Database
) -> None:
    bad = '{"order": "o-3", "amount": "12,50"}'
    with writing(migrated.dsn):
        shown = _preview(service, samples=[*SAMPLES, bad, "no json"])
    assert shown["state"] == "answered", shown
    assert shown["ddl"][0].startswith('CREATE TABLE "public"."orders"') or "CREATE TABLE" in shown["ddl"][0]
    assert all(fact["holds"] for fact in shown["facts"])
    first, second, wrong, unreadable = shown["samples"]
    assert '"amount":12.500000000000000000001' in first["row"]
    assert orjson.loads(second["row"])["mail"] == "***"
    assert "bob" not in str(shown)
    assert (wrong["outcome"], wrong["title"]) == ("would be parked", "`amount` is not a number")
    assert unreadable["outcome"] == "would be parked"
    assert rows(migrated.dsn, "SELECT count(*) FROM onramp.previews") == [(0,)]
    assert rows(migrated.dsn, "SELECT to_regclass('public.orders')") == [(None,)]


def test_a_preview_of_an_existing_table_has_its_defaults_and_changes_nothing(
    service: Inside, migrated: Database
) -> None:
    execute(
        migrated.dsn,
        'CREATE TABLE public.orders (_id text PRIMARY KEY, "order" text, amount numeric(6,2), '
        "size int GENERATED ALWAYS AS IDENTITY, state text DEFAULT 'new')",
    )
    kept = TYPE | {"destinations": [{"schema": "public", "table": "orders"}], "personal": []}
    with writing(migrated.dsn):
        asked = {"name": "order_made", "event_type": kept}
        shown = service.post("/v1/previews", **asked, samples=['{"order": "o", "amount": 2.5}']).json()
    [sample] = shown["samples"]
    row = orjson.loads(sample["row"])
    assert (row["order"], row["state"], row["size"]) == ("o", "new", 1)
    assert '"amount":2.50' in sample["row"]
    assert rows(migrated.dsn, "SELECT count(*) FROM public.orders") == [(0,)]


def test_preview_without_a_writer_is_unanswered_and_still_has_the_ddl(
    migrated: Database, own_topics: HasBootstrap, templates: Templates
) -> None:
    with (
        database_beside(templates.server, templates.control) as dsn,
        inside(dsn, {"onramp": migrated.dsn}, own_topics.bootstrap, preview_seconds=0) as service,
    ):
        shown = _preview(service, samples=SAMPLES)
        assert (shown["state"], shown["samples"]) == ("unanswered", [])
        assert "onramp writer" in shown["detail"]
        assert "CREATE TABLE" in shown["ddl"][0]
        assert rows(migrated.dsn, "SELECT count(*) FROM onramp.previews") == [(0,)]


@pytest.mark.parametrize("place", [{"table": "a\0b"}, {"schema": "a\0b"}, {"table": "x" * 64}])
def test_a_preview_refuses_a_name_that_no_table_can_have(service: Inside, place: dict[str, str]) -> None:
    named = TYPE | {"destinations": [ORDERS | place | {"create": False}]}
    answer = service.post("/v1/previews", name="order_made", event_type=named, samples=SAMPLES)
    refused(answer, 422, "registry_refused")


def test_preview_of_newest_events_is_recorded_in_the_audit_log_with_its_actor(
    service: Inside, stage: Stage, migrated: Database
) -> None:
    stage.send(*(envelope(f"e-{n}", stage.name, text.encode()) for n, text in enumerate(SAMPLES)))
    asked = {"name": stage.name, "event_type": TYPE}
    refused(service.of("otto").post("/v1/previews", **asked), 403, "not_allowed")
    refused(service.of("adam").post("/v1/previews", **asked), 403, "not_allowed")
    missing = service.ask("POST", "/v1/previews", json=asked)
    refused(missing, 422, "bad_query")
    with writing(migrated.dsn):
        shown = service.post("/v1/previews", **asked).json()
    assert [sample["outcome"] for sample in shown["samples"]] == ["would land"] * 2
    assert service.acts()[0] == ("ada", "preview", f"event type {stage.name}")


def test_a_good_event_is_the_newest_that_is_not_parked(service: Inside, stage: Stage) -> None:
    bad = b'{"amount": "12,50"}'
    values = [envelope("a", stage.name, b'{"amount": 1}'), envelope("b", stage.name, b'{"amount": 22}')]
    stage.send(*values, envelope("c", stage.name, bad), envelope("d", "other"), b"no json")
    place = {"topic": stage.partition.topic, "topic_id": stage.topic_id, "event_name": stage.name}
    ingester = IngesterSession.open(service.dsn)
    assert ingester is not None
    ingester.keep([parked(2, envelope("c", stage.name, bad), **place)], {})
    ingester.close()
    [group] = service.get("/v1/groups", event_name=stage.name)["groups"]
    found = service.of("vera").get(f"/v1/groups/{group['id']}/good")
    assert (found["good"]["offset"], found["good"]["shape"]["payload"]) == (1, {"amount": "99"})
    assert found["good"]["shape"]["event_name"] == stage.name
    refused(service.of("olga").ask("GET", f"/v1/groups/{group['id']}/good"), 404, "not_stored")
    browser = service.of("vera").browser()
    assert f"/ui/groups/{group['id']}/good" in browser.see(f"/groups/{group['id']}")
    assert browser.client.get(f"/ui/groups/{group['id']}/good").status_code == 303
    beside = browser.see(f"/groups/{group['id']}")
    assert f"{stage.partition.topic}/0/1" in beside


@pytest.mark.parametrize(("others", "row"), [({}, {"name": "aaa"}), ({"pay_made"}, None)])
def test_a_row_of_a_shared_table_is_not_shown_to_a_caller_for_one_of_its_types(
    migrated: Database, templates: Templates, others: set[str], row: dict[str, str] | None
) -> None:
    execute(migrated.dsn, "CREATE TABLE public.shared AS SELECT 'ann' AS name")
    into = {"owner": "shop", "destinations": [{"schema": "public", "table": "shared"}]}
    known = {"event_types": dict.fromkeys(["order_made", *others], into)}
    with (
        database_beside(templates.server, "template0") as dsn,
        inside(dsn, {"onramp": migrated.dsn}, known=known) as service,
    ):
        path = "/v1/types/order_made/first-row"
        assert service.of("olga").get(path)["row"] == row
        assert service.of("vera").get(path)["row"] == {"name": "aaa"}
