"""The whole story with Spark: a locked table and a flood of bad events harm only themselves."""

import json
from contextlib import closing
from typing import Any

import httpx2
import psycopg2
from typer.testing import CliRunner

from services.cli.app import app
from stack.services import Service
from tests.fixtures.scenes import Scene, kill_driver_alone, ready
from tests.fixtures.writer import envelope, event, eventually, landed, rows


def _kinds(service: Service) -> list[tuple[str, str]]:
    return [(each["kind"], each["state"]) for each in ready(service)[1]["holds"]]


def _metric(service: Service, text: str) -> bool:
    return text in httpx2.get(f"{service.url}/metrics", timeout=5).text


def _onramp(scene: Scene, *arguments: str) -> Any:
    said = CliRunner().invoke(app, [*arguments, "--dsn", scene.dsn])
    assert said.exception is None or isinstance(said.exception, SystemExit), said.output
    return said


def test_f29_while_a_table_is_locked_its_events_wait_and_the_rest_lands(scene: Scene) -> None:
    other = f"{scene.name}_other"
    scene.send(20)
    service = scene.writer(lock_timeout_ms=300)
    scene.all_landed_once()
    with closing(psycopg2.connect(scene.dsn)) as owner, owner.cursor() as cursor:
        cursor.execute(f"LOCK TABLE events.{scene.name}")
        scene.send(30)
        eventually(lambda: _kinds(service) == [("table", "blocked")])
        scene.produce(*(event(f"o-{i}", other) for i in range(10)))
        eventually(lambda: landed(scene.dsn, other) == 10)
        kill_driver_alone(service)  # what waits is a fact of the database, not of the process
        service = scene.writer(lock_timeout_ms=300)
        eventually(lambda: _kinds(service) == [("table", "blocked")])
        scene.send(10)
        eventually(lambda: scene.totals().get("waiting") == 40)
        eventually(lambda: scene.group() == scene.settled())
    eventually(lambda: scene.landed() == scene.accepted)
    numbers = [n for (n,) in scene.query("SELECT (payload->>'n')::int FROM TABLE ORDER BY ctid")]
    assert sorted(numbers) == list(range(60))
    by_partition = scene.query(
        "SELECT bool_and(_offset > before) FROM (SELECT _offset, lag(_offset, 1, -1::bigint) "
        "OVER (PARTITION BY _partition ORDER BY ctid) before FROM TABLE) o"
    )
    assert by_partition == [(True,)]
    eventually(lambda: _kinds(service) == [])
    scene.send(5)
    eventually(lambda: scene.landed() == scene.accepted)
    assert {k: n for k, n in scene.totals().items() if n} == {"landed": 75}


def test_a_type_that_is_paused_stays_so_through_a_restart_and_lands_when_resumed(scene: Scene) -> None:
    other = f"{scene.name}_other"
    limit = {"pause_least": 10, "pause_window": 100}
    scene.send(5)
    service = scene.writer(**limit)
    scene.all_landed_once()
    bad = [envelope(f"bad-{i}", scene.name, b'{"a":"\\u0000"}') for i in range(40)]
    scene.produce(*bad)
    eventually(lambda: _kinds(service) == [("type", "paused")])
    assert b"an event type is paused" in service.log.read_bytes()
    assert _metric(service, f'kind="type",name="{scene.name}",state="paused"}} 1.0')
    assert ready(service)[0] == 200  # the others go on
    kill_driver_alone(service)
    service = scene.writer(**limit)
    eventually(lambda: _kinds(service) == [("type", "paused")])
    scene.send(7)
    scene.produce(event("o-1", other))
    eventually(lambda: landed(scene.dsn, other) == 1)
    eventually(lambda: scene.group() == scene.settled())
    assert scene.landed() == 5
    parked, waiting = scene.totals()["parked"], scene.totals()["waiting"]
    assert (parked < 40, parked + waiting) == (True, 47)
    [held] = json.loads(_onramp(scene, "types", "list", "--json").output)
    assert (held["name"], held["waiting"]) == (scene.name, waiting)

    assert _onramp(scene, "types", "resume", scene.name).exit_code == 0
    eventually(lambda: scene.landed() == 12)
    eventually(lambda: _kinds(service) == [])
    assert rows(scene.dsn, "SELECT count(*) FROM onramp.waiting") == [(0,)]
    assert {k: n for k, n in scene.totals().items() if n} == {"landed": 13, "parked": 40}
    scene.send(3)
    eventually(lambda: scene.landed() == 15)
