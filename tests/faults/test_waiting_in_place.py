"""A locked table and a flood of bad events affect only their own events, also through a killed writer."""

import json
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from typer.testing import CliRunner

from services.cli.app import app
from tests.fixtures.inline import Inline, KilledError, Places
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import envelope, event, eventually, landed, rows


def _kinds(writer: Inline) -> list[tuple[str, str]]:
    return [(each["kind"], each["state"]) for each in writer.readyz()["holds"]]


def _kill(writer: Inline, places: Places, scene: Scene) -> None:
    """Kill a writer in its next batch: waiting events are stored in the database, not in the process."""
    places.kill_at("writer.before_group_commit")
    scene.produce(b"not for us", headers=[])
    assert isinstance(writer.ended(), KilledError)


def _onramp(scene: Scene, *arguments: str) -> Any:
    said = CliRunner().invoke(app, [*arguments, "--dsn", scene.dsn])
    assert said.exception is None or isinstance(said.exception, SystemExit), said.output
    return said


def test_while_a_table_is_locked_its_events_wait_and_the_rest_lands(inline: Scene, places: Places) -> None:
    other = f"{inline.name}_other"
    inline.send(20)
    writer: Inline = inline.writer(lock_timeout_ms=300)
    inline.all_landed_once()
    with closing(psycopg2.connect(inline.dsn)) as owner, owner.cursor() as cursor:
        cursor.execute(f"LOCK TABLE events.{inline.name}")
        inline.send(30)
        eventually(lambda: _kinds(writer) == [("table", "blocked")])
        inline.produce(*(event(f"o-{i}", other) for i in range(10)))
        eventually(lambda: landed(inline.dsn, other) == 10)
        _kill(writer, places, inline)
        writer = inline.writer(lock_timeout_ms=300)
        eventually(lambda: _kinds(writer) == [("table", "blocked")])
        inline.send(10)
        eventually(lambda: inline.totals().get("waiting") == 40)
        eventually(lambda: inline.group() == inline.settled())
    eventually(lambda: inline.landed() == inline.accepted)
    numbers = [n for (n,) in inline.query("SELECT (payload->>'n')::int FROM TABLE ORDER BY ctid")]
    assert sorted(numbers) == list(range(60))
    by_partition = inline.query(
        "SELECT bool_and(_offset > before) FROM (SELECT _offset, lag(_offset, 1, -1::bigint) "
        "OVER (PARTITION BY _partition ORDER BY ctid) before FROM TABLE) o"
    )
    assert by_partition == [(True,)]
    eventually(lambda: _kinds(writer) == [])
    inline.send(5)
    eventually(lambda: inline.landed() == inline.accepted)
    assert {k: n for k, n in inline.totals().items() if n} == {"landed": 75}


def test_a_type_that_is_paused_stays_so_through_a_restart_and_lands_when_resumed(
    inline: Scene, places: Places, caplog: pytest.LogCaptureFixture
) -> None:
    other = f"{inline.name}_other"
    limit = {"pause_min_events": 10, "pause_window": 100}
    inline.send(5)
    writer: Inline = inline.writer(**limit)
    inline.all_landed_once()
    bad = [envelope(f"bad-{i}", inline.name, b'{"a":"\\u0000"}') for i in range(40)]
    inline.produce(*bad)
    eventually(lambda: _kinds(writer) == [("type", "paused")])
    assert any(r.getMessage().startswith("an event type is paused") for r in caplog.records)
    paused = f'kind="type",name="{inline.name}",state="paused"}}'
    assert [value for series, value in writer.shown.items() if series.endswith(paused)] == [1.0]
    assert writer.job._status.ready()[0]  # the others go on
    _kill(writer, places, inline)
    writer = inline.writer(**limit)
    eventually(lambda: _kinds(writer) == [("type", "paused")])
    inline.send(7)
    inline.produce(event("o-1", other))
    eventually(lambda: landed(inline.dsn, other) == 1)
    eventually(lambda: inline.group() == inline.settled())
    assert inline.landed() == 5
    parked, waiting = inline.totals()["parked"], inline.totals()["waiting"]
    assert (parked < 40, parked + waiting) == (True, 47)
    [held] = json.loads(_onramp(inline, "types", "list", "--json").output)
    assert (held["name"], held["waiting"]) == (inline.name, waiting)

    assert _onramp(inline, "types", "resume", inline.name).exit_code == 0
    eventually(lambda: inline.landed() == 12)
    eventually(lambda: _kinds(writer) == [])
    assert rows(inline.dsn, "SELECT count(*) FROM onramp.waiting") == [(0,)]
    assert {k: n for k, n in inline.totals().items() if n} == {"landed": 13, "parked": 40}
    inline.send(3)
    eventually(lambda: inline.landed() == 15)
