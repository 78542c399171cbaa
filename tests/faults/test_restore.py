"""Restoring a dump as docs/machines.md describes: the database halts, is refilled and is complete again."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from tests.fixtures.dumps import dump, restore
from tests.fixtures.inline import Inline
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import eventually, execute, landed, ledger_of, rows


@pytest.fixture
def written(inline: Scene, other: Other, tmp_path: Path) -> tuple[Inline, Path]:
    """A writer that has landed 50 events in both databases, and a dump of the second after 20."""
    writer = inline.writer_into(other)
    inline.send(20)
    all_landed(inline, other)
    file = dump(other.dsn, tmp_path / "dump")
    inline.send(30)
    all_landed(inline, other)
    return writer, file


def all_landed(scene: Scene, other: Other) -> None:
    """Check that each event landed once, by rows and ledger."""
    scene.all_landed_once()
    eventually(lambda: landed(other.dsn, scene.name) == scene.accepted, 120)
    eventually(lambda: ledger_of(other.dsn, scene.topic) == scene.ledger())
    ids = rows(other.dsn, f"SELECT count(DISTINCT _id)::int FROM events.{scene.name}")  # noqa: S608
    assert ids == [(scene.accepted,)]


def refilled(scene: Scene, other: Other, writer: Inline) -> None:
    """Check that only this database is halted until an operator decides, and complete afterwards."""
    eventually(lambda: writer.states == {scene.database: "landing", other.name: "halted"})
    scene.send(10)
    scene.all_landed_once()
    assert landed(other.dsn, scene.name) == 20
    databases = ["--dsn", scene.dsn, "--databases", json.dumps({other.name: other.dsn})]
    resolved = CliRunner().invoke(app, ["databases", "resolve", other.name, "refill", *databases])
    assert resolved.exit_code == 0, resolved.output
    all_landed(scene, other)
    eventually(lambda: set(writer.states.values()) == {"landing"})
    scene.audited(other)


@pytest.mark.full
def test_a_writer_that_is_pointed_at_a_restored_database(
    inline: Scene, other: Other, fresh: Other, written: tuple[Inline, Path]
) -> None:
    writer, file = written
    writer.stop()
    restore(file, fresh.dsn)
    fresh.name = other.name
    try:
        refilled(inline, fresh, inline.writer_into(fresh))
    finally:
        fresh.name = f"{other.name}_fresh"


def test_a_database_without_keys_that_takes_its_place_while_the_writer_runs(
    inline: Scene, other: Other, fresh: Other, written: tuple[Inline, Path]
) -> None:
    writer, file = written
    restore(file, fresh.dsn)
    execute(fresh.dsn, f"ALTER TABLE events.{inline.name} DROP CONSTRAINT {inline.name}_pkey")
    other.swap(fresh)
    refilled(inline, other, writer)
