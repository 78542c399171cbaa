"""A database that does not answer is named, and delays results of the others by a bounded time."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.ops.operate import create_sql, holds_sql
from shared.errors import InfrastructureError
from tests.fixtures.silent_servers import black_holes

PATIENCE_SECONDS = 0.3


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    assert holds_sql.PATIENCE_SECONDS == 2
    for module in (holds_sql, create_sql):
        monkeypatch.setattr(module, "PATIENCE_SECONDS", PATIENCE_SECONDS)


def test_a_check_names_each_database_that_does_not_answer(tmp_path: Path) -> None:
    tables = [{"vanity": name, "schema": "public", "table": "t"} for name in ("one", "two", "refuses")]
    file = tmp_path / "onramp.yaml"
    file.write_text(json.dumps({"event_types": {"a": {"destinations": tables}}}))
    with black_holes(2) as (one, two):
        databases = json.dumps({"one": one, "two": two, "refuses": "host=127.0.0.1 port=1"})
        command = ["destinations", "check", "--file", str(file), "--databases", databases, "--dsn", one]
        done = CliRunner().invoke(app, command)
    assert done.exit_code == 3
    assert [line.split(": ")[1:3] for line in done.stderr.splitlines()] == [
        ["a → one.public.t", _silence("one")],
        ["a → two.public.t", _silence("two")],
        ["a → refuses.public.t", "database refuses"],
    ]


def test_holds_and_tables_are_waited_for_no_longer() -> None:
    with black_holes(2) as (one, two):
        with pytest.raises(InfrastructureError, match="database one does not answer"):
            holds_sql.holds("one", one)
        with pytest.raises(InfrastructureError, match="database two does not answer"):
            create_sql.role_of(create_sql.Owner("two", two))


def _silence(name: str) -> str:
    return f"database {name} does not answer"
