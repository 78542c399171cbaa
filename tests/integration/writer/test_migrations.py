"""Migrations of the schema `onramp`: applied once, by the first process; edited files are refused."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from services.writer.postgres import migrations
from services.writer.postgres.migrations import migrate
from shared.errors import DATABASE_NEWER, DATABASE_UNFIT, InfrastructureError
from stack.services import ROOT
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import Bench, database_of, rows

_MIGRATE = """
import sys
from services.writer.postgres.migrations import migrate
from shared.errors import DATABASE_NEWER, DATABASE_UNFIT, InfrastructureError
from services.writer.postgres.database import Database
migrate(Database("onramp", sys.argv[1]))
"""


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of the migrations, to edit."""
    copy = shutil.copytree(migrations._FILES, tmp_path / "sql")
    monkeypatch.setattr(migrations, "_FILES", copy)
    return copy


def _applied(dsn: str) -> list[tuple[object, ...]]:
    return rows(dsn, "SELECT name, checksum, applied_at FROM onramp.migrations ORDER BY 1")


def test_every_file_is_applied_once(database: Database) -> None:
    migrate(database_of(database.dsn))
    first = _applied(database.dsn)
    assert [name for name, *_ in first] == sorted(f.name for f in migrations._FILES.glob("*.sql"))
    migrate(database_of(database.dsn))
    assert _applied(database.dsn) == first


def test_a_new_file_is_applied_to_a_database_that_has_the_others(database: Database, files: Path) -> None:
    migrate(database_of(database.dsn))
    (files / "9999_more.sql").write_text("CREATE TABLE onramp.more ();")
    migrate(database_of(database.dsn))
    assert rows(database.dsn, "SELECT to_regclass('onramp.more') IS NOT NULL") == [(True,)]


def test_an_edited_file_is_refused_by_name_and_nothing_is_applied(database: Database, files: Path) -> None:
    migrate(database_of(database.dsn))
    edited = min(files.glob("*.sql"))
    edited.write_text(edited.read_text() + "-- a harmless comment")
    (files / "9999_more.sql").write_text("CREATE TABLE onramp.more ();")
    with pytest.raises(InfrastructureError, match=edited.name) as refused:
        migrate(database_of(database.dsn))
    assert refused.value.fault is DATABASE_UNFIT
    assert rows(database.dsn, "SELECT to_regclass('onramp.more')::text") == [(None,)]


def test_a_file_of_a_newer_onramp_is_refused_by_name(database: Database, files: Path) -> None:
    newer = files / "9999_more.sql"
    newer.write_text("CREATE TABLE onramp.more ();")
    migrate(database_of(database.dsn))
    newer.unlink()
    with pytest.raises(InfrastructureError, match=newer.name) as refused:
        migrate(database_of(database.dsn))
    assert refused.value.fault is DATABASE_NEWER


def test_a_file_that_fails_leaves_no_trace(database: Database, files: Path) -> None:
    (files / "9999_more.sql").write_text("CREATE TABLE onramp.more (); SELECT 1 / 0;")
    with pytest.raises(Exception, match="22012"):
        migrate(database_of(database.dsn))
    assert rows(database.dsn, "SELECT to_regclass('onramp.ledger')::text") == [(None,)]


def test_writers_that_start_together_migrate_once(database: Database) -> None:
    argv = [sys.executable, "-c", _MIGRATE, database.dsn]
    starts = [subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE) for _ in range(3)]
    ends = [(process.communicate(timeout=60)[1], process.returncode) for process in starts]
    assert [code for _, code in ends] == [0] * 3, ends
    assert len(_applied(database.dsn)) == len(list(migrations._FILES.glob("*.sql")))


def test_a_database_that_an_operator_prepared_needs_no_right_to_create(bench: Bench, limited: Bench) -> None:
    bench.execute(
        f"GRANT USAGE ON SCHEMA onramp TO {limited.user};"
        f"GRANT SELECT ON ALL TABLES IN SCHEMA onramp TO {limited.user}"
    )
    migrate(limited.database)
