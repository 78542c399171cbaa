"""Audit by the routes in force when each event was processed, and events whose routes are unknown."""

import json

import orjson
import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.writer.kafka.producer import Record, publish
from services.writer.model.routes import EventRoute, Routes
from services.writer.park.diverted_topic import HEADER
from shared import wire
from shared.kafka_security import Brokers
from tests.fixtures.writer import event
from tests.integration.admin.conftest import Stage

_FORGET = "UPDATE onramp.ledger SET digest = NULL, since = NULL, upto = NULL"


def _typed(stage: Stage) -> Routes:
    """Routes under which the stage's events go to a typed table alone."""
    return Routes("onramp", event_routes=(EventRoute(stage.name, "onramp", "public", "typed"),))


@pytest.fixture
def moved(stage: Stage) -> Stage:
    """Two events landed in their landing table, then three in a typed one."""
    stage.execute("CREATE TABLE public.typed (_id text PRIMARY KEY, n int)")
    stage.settle(*(event(f"a-{i}", stage.name, n=i) for i in range(2)))
    stage.settle(*(event(f"b-{i}", stage.name, n=i) for i in range(3)), routes=_typed(stage))
    return stage


def test_each_range_is_judged_by_its_own_routes(moved: Stage) -> None:
    report = moved.audit()
    assert (report.findings, report.unjudged, report.balanced) == ([], 0, True)
    assert report.lines[0].outcomes == {"landed": 5}


def test_a_landing_row_that_is_gone_was_not_routed_elsewhere(moved: Stage) -> None:
    """Under the routes of today its event went to a typed table, which has no receipts."""
    moved.execute(f"DELETE FROM {moved.table} WHERE _id = 'a-1'")  # noqa: S608
    assert moved.found() == {("lost", 1), ("wrong_total", None)}


def test_a_row_where_the_routes_of_its_time_did_not_lead_is_a_phantom(moved: Stage) -> None:
    moved.execute(
        f"INSERT INTO {moved.table} SELECT 'b-0', _event_name, _timestamp, _version, _received_at, "  # noqa: S608
        f"_topic, _partition, 2, payload FROM {moved.table} WHERE _id = 'a-0'"
    )
    assert moved.found() == {("phantom", 2), ("wrong_total", None)}


def test_waiting_event_is_evaluated_by_the_routes_of_its_marker(moved: Stage) -> None:
    moved.settle(event("c-0", moved.name, n=1), divert=True)
    moved.settle(event("c-1", moved.name, n=1), divert=True, routes=_typed(moved))
    report = moved.audit()
    assert (report.findings, report.unjudged, report.lines[0].waiting) == ([], 0, 2)


def test_events_with_unknown_routes_are_counted_and_the_audit_does_not_reconcile(moved: Stage) -> None:
    moved.execute("DELETE FROM onramp.settled_under")
    moved.execute(_FORGET)
    arguments = ["audit", *moved.arguments, "--topics", moved.partition.topic]
    said = CliRunner().invoke(app, arguments)
    assert said.exit_code == 4
    assert "NOT ALL CHECKED: no violation, but 5 events cannot be checked" in said.output
    assert "Reconciled" not in said.output
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert (found["balanced"], found["unjudged"], found["findings"]) == (False, 5, [])


def test_unjudged_events_do_not_hide_what_is_lost(moved: Stage) -> None:
    moved.execute("DELETE FROM onramp.settled_under")
    moved.execute(f"DELETE FROM {moved.table} WHERE _id = 'a-1'")  # noqa: S608
    assert ("wrong_total", None) in moved.found()
    assert moved.audit().unjudged == 2


def test_routes_that_are_kept_no_more_are_not_guessed(moved: Stage) -> None:
    moved.execute("UPDATE onramp.settled_under SET digest = 'gone'")
    report = moved.audit()
    assert (report.findings, report.unjudged) == ([], 2)


def test_range_with_unknown_routes_is_evaluated_when_all_routes_agree(stage: Stage) -> None:
    stage.settle(event("a", stage.name))
    stage.execute(_FORGET)
    assert stage.audit().balanced
    stage.execute(f"DELETE FROM {stage.table}")  # noqa: S608
    assert ("lost", 0) in stage.found()


def test_offsets_that_the_ledger_skipped_are_reported_as_a_gap(stage: Stage) -> None:
    stage.settle(event("a", stage.name))
    stage.send(event("b", stage.name), event("c", stage.name))
    stage.execute("UPDATE onramp.ledger SET next_offset = 3")
    stage.settle(event("d", stage.name))
    assert stage.found() == {("gap", 1), ("lost", 1), ("lost", 2), ("unbalanced", None)}
    assert stage.found(deep=False) == {("gap", 1), ("unbalanced", None)}


def test_records_that_are_none_of_onramps_are_left_out_and_counted(stage: Stage) -> None:
    stage.settle(event("a", stage.name))
    before = stage.audit().foreign
    header = (HEADER, orjson.dumps({"kind": "marker", "database": 7}))
    publish(
        Brokers(stage.bootstrap),
        [
            Record(wire.SYSTEM_ERRORS, b"k", b"v", (header,)),
            Record(wire.SYSTEM_ERRORS, b"k", None, ()),
            Record(wire.USER_ERRORS, b"k", b"v", ()),
            Record(wire.SETTLED, b"hello", b"{"),
            Record(wire.SETTLED, b"routes/x", None),
        ],
    )
    report = stage.audit()
    assert (report.findings, report.foreign - before) == ([], 5)
    said = CliRunner().invoke(app, ["audit", *stage.arguments, "--topics", stage.partition.topic])
    assert f"excluded: {report.foreign} foreign records on Onramp's topics" in said.output
