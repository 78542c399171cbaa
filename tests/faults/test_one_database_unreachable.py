"""Two databases, one unreachable: only its events wait, and they drain when it returns."""

import orjson
import pytest

from shared import wire
from tests.fixtures.inline import Inline
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import eventually, ledger_of, records, rows


@pytest.fixture
def both(inline: Scene, other: Other, event_lines: list[bytes]) -> Inline:
    """A writer that lands the scene's events in both databases, and has a line for each."""
    assert event_lines == []
    writer: Inline = inline.writer_into(other)
    return writer


def _landed_in(dsn: str, scene: Scene) -> list[int]:
    """The events' numbers in the order in which they landed, where the table is there."""
    if rows(dsn, "SELECT to_regclass(%s)::text", f"events.{scene.name}") == [(None,)]:
        return []
    found = rows(dsn, f"SELECT (payload->>'n')::int FROM events.{scene.name} ORDER BY ctid")  # noqa: S608
    return [n for (n,) in found]


def _said(lines: list[bytes], scene: Scene, other: Other) -> set[tuple[str, str]]:
    """The ids of events that the log has lines of for the other database, with their outcomes."""
    found = [line for line in map(orjson.loads, lines) if line["message"] == "event"]
    ours = [x for x in found if (x["database"], x["table"]) == (other.name, f"events.{scene.name}")]
    return {(x["event_id"], x["outcome"]) for x in ours}


def test_events_for_a_closed_database_wait_and_drain_when_it_opens(
    inline: Scene, other: Other, both: Inline, event_lines: list[bytes]
) -> None:
    inline.send(50)
    eventually(lambda: len(_landed_in(other.dsn, inline)) == 50)

    other.close()
    for _ in range(3):
        inline.send(200)
        eventually(lambda: inline.landed() == inline.accepted)  # the healthy one goes on
    inline.send(1)
    eventually(lambda: inline.landed() == inline.accepted)
    waiting = [r.headers["onramp-waiting"] for r in records(inline.bootstrap, wire.SYSTEM_ERRORS)]
    of_other = [w for w in map(orjson.loads, waiting) if w["database"] == other.name]
    assert sum(w["kind"] == "event" for w in of_other) >= 601
    other.open()

    eventually(lambda: len(_landed_in(other.dsn, inline)) == inline.accepted)
    assert sorted(_landed_in(other.dsn, inline)) == list(range(inline.accepted))
    eventually(lambda: ledger_of(other.dsn, inline.topic) == ledger_of(inline.dsn, inline.topic))
    inline.send(10)  # live traffic takes over again
    eventually(lambda: len(_landed_in(other.dsn, inline)) == inline.accepted)
    inline.all_landed_once()
    assert both.readyz()["status"] == "consuming"

    said = _said(event_lines, inline, other)
    assert {(f"{inline.name}-{n}", "waiting") for n in range(50, 651)} <= said
    assert {event_id for event_id, outcome in said if outcome == "landed"} == {
        f"{inline.name}-{n}" for n in range(inline.accepted)
    }
