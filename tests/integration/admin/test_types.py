"""`onramp types`: what is paused or blocked, and a person who resumes it."""

import json
from typing import Any

from typer.testing import CliRunner

from services.cli.app import app
from services.writer.model.routes import Routes
from services.writer.recover.release import Release
from tests.fixtures.writer import event
from tests.integration.admin.conftest import Stage


def _run(stage: Stage, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["types", *arguments, "--dsn", stage.dsn])


def test_a_paused_type_is_listed_resumed_and_lands(stage: Stage) -> None:
    stage.settle(event("a", stage.name))
    stage.hold("type", stage.name, "paused")
    stage.settle(event("b", stage.name), event("c", stage.name))

    listed = _run(stage, "list")
    assert listed.exit_code == 1
    assert f"onramp: type {stage.name} is paused since" in listed.output
    assert "2 waiting" in listed.output
    assert Release(stage.database).run(Routes("onramp"))  # nobody has resumed it

    assert _run(stage, "resume", stage.name).exit_code == 0
    [held] = json.loads(_run(stage, "list", "--json").output)
    assert (held["state"], held["waiting"]) == ("resumed", 2)
    assert Release(stage.database).run(Routes("onramp")) == []
    assert stage.rows(f"SELECT _id FROM {stage.table} ORDER BY ctid") == [("a",), ("b",), ("c",)]  # noqa: S608
    assert _run(stage, "list").exit_code == 0


def test_what_is_not_paused_is_not_resumed(stage: Stage) -> None:
    stage.hold("table", "public.t", "blocked")
    for name in ("nobody", "public.t"):
        said = _run(stage, "resume", name)
        assert (said.exit_code, "paused nowhere" in said.output) == (1, True)
    listed = _run(stage, "list")
    assert (listed.exit_code, "table public.t is blocked" in listed.output) == (0, True)


def test_a_database_that_is_out_is_3() -> None:
    for verb in (["list"], ["resume", "x"]):
        said = CliRunner().invoke(app, ["types", *verb, "--dsn", "postgresql://x@127.0.0.1:1/x"])
        assert (said.exit_code, "cannot be reached" in said.output) == (3, True)
