"""Two databases, one of them out: it harms only itself, and drains by itself when it returns."""

from pathlib import Path

import orjson
import pytest

from shared import wire
from stack.services import Service
from tests.fixtures.other import Other
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import eventually, ledger_of, records, rows


@pytest.fixture
def both(scene: Scene, other: Other) -> Service:
    """A writer that lands the scene's events in both databases."""
    return scene.writer_into(other, event_lines=100_000)


def _landed_in(dsn: str, scene: Scene) -> list[int]:
    """The events' numbers in the order in which they landed, where the table is there."""
    if rows(dsn, "SELECT to_regclass(%s)::text", f"events.{scene.name}") == [(None,)]:
        return []
    found = rows(dsn, f"SELECT (payload->>'n')::int FROM events.{scene.name} ORDER BY ctid")  # noqa: S608
    return [n for (n,) in found]


def _said(log: Path, scene: Scene, other: Other) -> set[tuple[str, str]]:
    """The ids of events that the log has lines of for the other database, with their outcomes."""
    lines = [orjson.loads(line) for line in log.read_text().splitlines() if '"message":"event"' in line]
    ours = [x for x in lines if (x["database"], x["table"]) == (other.name, f"events.{scene.name}")]
    return {(x["event_id"], x["outcome"]) for x in ours}


def test_events_for_a_closed_database_wait_and_drain_when_it_opens(
    scene: Scene, other: Other, both: Service, tmp_path: Path
) -> None:
    scene.send(50)
    eventually(lambda: len(_landed_in(other.dsn, scene)) == 50)

    other.close()
    for _ in range(3):
        scene.send(200)
        eventually(lambda: scene.landed() == scene.accepted)  # the healthy one goes on
    scene.send(1)
    eventually(lambda: scene.landed() == scene.accepted)
    waiting = [r.headers["onramp-waiting"] for r in records(scene.bootstrap, wire.SYSTEM_ERRORS)]
    assert sum(b'"kind":"event"' in w for w in waiting) >= 601
    other.open()

    eventually(lambda: len(_landed_in(other.dsn, scene)) == scene.accepted)
    assert sorted(_landed_in(other.dsn, scene)) == list(range(scene.accepted))
    eventually(lambda: ledger_of(other.dsn, scene.topic) == ledger_of(scene.dsn, scene.topic))
    scene.send(10)  # live traffic takes over again
    eventually(lambda: len(_landed_in(other.dsn, scene)) == scene.accepted)
    scene.all_landed_once()
    assert both.is_ready()

    said = _said(tmp_path / "writer-0.log", scene, other)
    assert {(f"{scene.name}-{n}", "waiting") for n in range(50, 651)} <= said
    assert {event_id for event_id, outcome in said if outcome == "landed"} == {
        f"{scene.name}-{n}" for n in range(scene.accepted)
    }
