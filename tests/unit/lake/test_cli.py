"""`onramp lake`: tables, queries and maintenance from the command line, on tables in a folder."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from services.cli.app import app
from tests.fixtures.delta_tables import FIRST_DAY, receipts, small_files

DAYS: Sequence[date | None] = [FIRST_DAY, None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lake with a table of 34 files and one of two, which no test changes."""
    folder = tmp_path_factory.mktemp("lake")
    small_files(str(folder / "flights"), 17, days=DAYS)
    small_files(str(folder / "trains"), 2)
    return folder


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["lake", *arguments, "--url", str(folder)])


def documents(folder: Path, *arguments: str) -> Any:
    result = run(folder, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_tables_shows_rows_files_and_small_files(folder: Path) -> None:
    found = documents(folder, "tables")
    columns = ("table", "rows", "files", "small_files", "dates")
    assert [tuple(each[column] for column in columns) for each in found] == [
        ("flights", 170, 34, 34, 2),
        ("trains", 20, 2, 2, 1),
    ]
    assert found[0]["last_received_at"] == "2026-01-01T00:02:49+00:00"
    assert "flights   170     34     34" in run(folder, "tables").stdout


def test_a_damaged_table_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    for name in ("flights", "trains"):
        small_files(str(tmp_path / name), 2)
    (tmp_path / "flights" / "_delta_log" / f"{1:020}.json").write_text("{", "utf-8")
    result = run(tmp_path, "tables")
    assert (result.exit_code, "trains" in result.stdout) == (1, True)
    assert "table flights cannot be read" in result.stderr


def test_show_prints_columns_and_dates(folder: Path) -> None:
    found = documents(folder, "show", "flights")
    assert found["columns"]["_timestamp"] == "timestamp"
    assert [(each["partition"], each["rows"], each["files"]) for each in found["partitions"]] == [
        ("_date=2026-01-01", 85, 17),
        ("_date=null", 85, 17),
    ]
    result = run(folder, "show", "ships")
    assert (result.exit_code, "there is no table ships" in result.stderr) == (3, True)


def test_a_query_reads_tables_columns_and_payloads(folder: Path) -> None:
    sql = """
        SELECT f._date, count(*) AS n, max((payload->>'$.offset')::int) AS newest
        FROM flights f JOIN (SELECT count(*) AS n FROM Trains) t ON true
        WHERE f._timestamp >= '2026-01-01T00:01:00Z' GROUP BY ALL ORDER BY ALL NULLS LAST"""
    result = run(folder, "query", sql, "--json")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"_date": "2026-01-01", "n": 55, "newest": 168},
        {"_date": None, "n": 55, "newest": 169},
    ]
    result = run(folder, "query", "SELECT _offset FROM flights", "--limit", "3")
    assert len(result.stdout.splitlines()) == 4
    assert "only the first 3 rows" in result.stderr


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM ships", "ships does not exist"),
        ("SELECT * FROM read_csv('/etc/hostname')", "disabled by configuration"),
        ("COPY (SELECT 1) TO 'x.csv'", "disabled by configuration"),
        ("INSTALL httpfs", "disabled by configuration"),
        ("SET enable_external_access = true", "configuration has been locked"),
        ("SELECT payload::int FROM flights", "Could not convert"),
    ],
)
def test_a_query_that_duckdb_refuses_is_a_sentence(folder: Path, sql: str, message: str) -> None:
    result = run(folder, "query", sql)
    assert result.exit_code == 1
    assert message in result.stderr


def test_compact_dry_run_changes_nothing_and_compact_rewrites(tmp_path: Path) -> None:
    small_files(str(tmp_path / "flights"), 17, days=DAYS)
    planned = documents(tmp_path, "compact", "--dry-run")
    assert [(each["partitions"], each["files_before"]) for each in planned] == [
        (["_date=2026-01-01"], 17),
        (["_date=null"], 17),
    ]
    assert documents(tmp_path, "tables")[0]["files"] == 34
    assert "flights     34          2" in run(tmp_path, "compact").stdout
    assert documents(tmp_path, "tables")[0]["files"] == 2
    assert "No files to rewrite." in run(tmp_path, "compact", "flights").stdout
    assert receipts(tmp_path / "flights") == [(0, offset) for offset in range(170)]


def test_vacuum_lists_foreign_files_and_deletes_none(tmp_path: Path) -> None:
    small_files(str(tmp_path / "flights"), 2)
    foreign = tmp_path / "flights" / "notes.txt"
    foreign.write_text("x", "utf-8")
    os.utime(foreign, (1, 1))
    expected = [{"table": "flights", "files": [], "foreign": ["notes.txt"]}]
    assert documents(tmp_path, "vacuum", "--dry-run") == expected
    assert documents(tmp_path, "vacuum") == expected
    assert foreign.exists()


def test_forever_takes_no_table(folder: Path) -> None:
    result = run(folder, "compact", "flights", "--forever")
    assert (result.exit_code, "takes no table" in result.stderr) == (2, True)


def test_without_a_lake_the_option_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONRAMP_LAKE_URL", raising=False)
    result = CliRunner().invoke(app, ["lake", "tables", "--data-dir", str(tmp_path)])
    assert (result.exit_code, "give --url" in result.stderr) == (2, True)


@pytest.mark.full
def test_a_query_that_needs_few_rows_of_many_files_ends_its_process(tmp_path: Path) -> None:
    small_files(str(tmp_path / "flights"), 60, each=500, days=[FIRST_DAY, None])
    sql = "SELECT _id, _offset FROM flights LIMIT 1"
    command = [sys.executable, "-m", "services.cli", "lake", "query", sql, "--url", str(tmp_path)]
    for _ in range(8):
        assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
