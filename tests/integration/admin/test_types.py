"""`onramp types`: paused types and blocked tables are listed, resumed or parked by an operator."""

import json
from typing import Any

from typer.testing import CliRunner

from services.cli.app import app
from services.writer.model.routes import Routes
from services.writer.park import outbox
from services.writer.waiting.release import Release
from shared import wire
from shared.kafka_security import Brokers
from tests.fixtures.writer import event, records
from tests.integration.admin.conftest import Stage


def _run(stage: Stage, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["types", *arguments, "--dsn", stage.dsn])


def test_a_paused_type_is_listed_resumed_and_lands(stage: Stage) -> None:
    stage.settle(event("a", stage.name))
    stage.hold("type", stage.name, "paused")
    stage.settle(event("b", stage.name), event("c", stage.name))

    listed = _run(stage, "list")
    assert listed.exit_code == 1
    header, line = listed.output.splitlines()
    assert header.split() == ["DATABASE", "KIND", "NAME", "STATE", "SQLSTATE", "SINCE", "WAITING"]
    assert line.split()[:5] == ["onramp", "type", stage.name, "paused", "-"]
    assert line.endswith("  2")
    assert Release(stage.database).run(Routes("onramp"))  # nobody has resumed it

    assert _run(stage, "resume", stage.name).exit_code == 0
    [held] = json.loads(_run(stage, "list", "--json").output)
    assert (held["state"], held["waiting"]) == ("resumed", 2)
    assert Release(stage.database).run(Routes("onramp")) == []
    assert stage.rows(f"SELECT _id FROM {stage.table} ORDER BY ctid") == [("a",), ("b",), ("c",)]  # noqa: S608
    assert _run(stage, "list").exit_code == 0


def test_resume_of_an_unknown_or_blocked_name_fails_and_leaves_the_hold_blocked(stage: Stage) -> None:
    stage.hold("table", "public.t", "blocked")
    for name in ("nobody", "public.t"):
        said = _run(stage, "resume", name)
        assert (said.exit_code, "is not paused" in said.output) == (1, True)
    listed = _run(stage, "list")
    assert listed.exit_code == 0
    assert listed.output.splitlines()[1].split()[1:4] == ["table", "public.t", "blocked"]


def test_a_database_that_is_out_is_3() -> None:
    for verb in (["list"], ["resume", "x"]):
        said = CliRunner().invoke(app, ["types", *verb, "--dsn", "postgresql://x@127.0.0.1:1/x"])
        assert (said.exit_code, "cannot be reached" in said.output) == (3, True)


def test_dead_lettered_hold_has_its_events_parked_and_the_totals_reconcile(stage: Stage) -> None:
    stage.settle(event("a", stage.name))
    stage.hold("type", stage.name, "paused")
    stage.settle(event("b", stage.name), event("c", stage.name))
    stage.hold("type", "another", "paused")

    why = ("--reason", "sent again")
    asked = CliRunner().invoke(app, ["types", "park", stage.name, *why, "--dsn", stage.dsn], input="n\n")
    assert asked.exit_code == 1
    assert asked.output.splitlines()[1].endswith("  2")
    assert _run(stage, "park", stage.name, "--reason", " ", "--yes").exit_code == 2
    nobody = _run(stage, "park", "nobody", *why, "--yes")
    assert (nobody.exit_code, "no hold is named nobody" in nobody.output) == (1, True)
    dead_lettered = _run(stage, "park", stage.name, *why, "--yes", "--json")
    assert json.loads(dead_lettered.output) == {"name": stage.name, "dead_lettered": ["onramp"]}
    states = {each["name"]: each["state"] for each in json.loads(_run(stage, "list", "--json").output)}
    assert states == {stage.name: "dead_lettered", "another": "paused"}

    assert [hold.name for hold in Release(stage.database).run(Routes("onramp"))] == ["another"]
    outbox.relay(stage.database, Brokers(stage.bootstrap))
    report = stage.audit()
    assert (report.findings, report.unsettled) == ([], 0)
    assert stage.rows("SELECT outcome, sum(events)::int FROM onramp.totals GROUP BY 1 ORDER BY 1") == [
        ("landed", 1),
        ("parked", 2),
        ("waiting", 0),
    ]
    parked = [
        r for r in records(stage.bootstrap, wire.USER_ERRORS) if r.value and stage.name.encode() in r.value
    ]
    assert [(r.key or b"").split(b"/")[2] for r in parked] == [b"1", b"2"]
