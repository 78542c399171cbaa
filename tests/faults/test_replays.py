"""Replays during live events: a killed writer, an unreachable database, and lost rows."""

import asyncio
import re
from contextlib import closing

import psycopg2
import pytest

from services.ops.audit.run import Request, audit
from services.ops.findings import Code
from shared.kafka_security import Brokers
from tests.fixtures.inline import Inline, KilledError, Places
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import envelope, event, eventually, execute, landed, rows

JOB = "00000000-0000-0000-0000-00000000000a"
_QUICK = {"metrics_seconds": 0.1}


def _bad(event_id: str, name: str) -> bytes:
    return envelope(event_id, name, b'{"a":"\\u0000"}')


def _stage(dsn: str, name: str, attempt: int = 1) -> int:
    """Stage every event of `name` that is parked and not replayed, fixed; return how many."""
    with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cursor:
        cursor.execute(
            "SELECT topic_id, topic, partition, next_offset FROM onramp.ledger WHERE topic = %s",
            (f"events.{name}",),
        )
        ledger = cursor.fetchall()
        cursor.execute(f"SELECT _partition, _offset FROM events.{name}")  # noqa: S608
        there = set(cursor.fetchall())
        staged = [(i, t, p, o) for i, t, p, end in ledger for o in range(end) if (p, o) not in there]
        for topic_id, topic, partition, offset in staged:
            value = event(f"fixed-{partition}-{offset}", name)
            cursor.execute(
                'INSERT INTO onramp.replays (topic_id, topic, partition, "offset", destination, attempt, '
                "job, value, sha256, timestamp) SELECT %s, %s, %s, %s, %s || '.events.' || %s, %s, %s, %s, "
                "sha256(%s), now() ON CONFLICT DO NOTHING",
                (topic_id, topic, partition, offset, _owner(dsn), name, attempt, JOB, value, value),
            )
    return len(staged)


def _owner(dsn: str) -> str:
    return str(rows(dsn, "SELECT name FROM onramp.owner")[0][0])


def _parked(scene: Scene, n: int) -> None:
    """Have `n` events parked between ten that land."""
    scene.send(5)
    scene.produce(*(_bad(f"bad-{i}", scene.name) for i in range(n)))
    scene.send(5)
    eventually(lambda: scene.totals().get("parked") == n and scene.landed() == 10)


def _balanced(scene: Scene, n: int) -> None:
    """Every one of `n` parked events landed once, by its attempt, and the totals agree."""
    eventually(lambda: scene.totals().get("replayed") == n)
    said = scene.ask("SELECT outcome, count(*)::int FROM onramp.replayed GROUP BY 1")
    assert said == [("landed", n)]
    assert scene.ask("SELECT count(*)::int FROM onramp.replays") == [(0,)]
    assert scene.landed() == scene.accepted + n
    assert scene.totals()["parked"] == n
    scene.audited()


@pytest.mark.parametrize("place", ["writer.mid_replay", "writer.after_replay"])
def test_a_writer_that_is_killed_in_mid_replay_lands_each_event_once(
    inline: Scene, places: Places, place: str
) -> None:
    writer: Inline = inline.writer(**_QUICK)
    _parked(inline, 20)
    places.kill_at(place)
    assert _stage(inline.dsn, inline.name) == 20
    assert isinstance(writer.ended(), KilledError)
    assert inline.totals().get("replayed", 0) == (20 if place == "writer.after_replay" else 0)
    if place == "writer.after_replay":  # the admin service does not know, and stages what it stages again
        execute(
            inline.dsn,
            'INSERT INTO onramp.replays (topic_id, topic, partition, "offset", destination, attempt, job, '
            'value, timestamp) SELECT topic_id, topic, partition, "offset", destination, attempt, job, '
            "'{}', now() FROM onramp.replayed",
        )
    again: Inline = inline.writer(**_QUICK)
    eventually(lambda: inline.ask("SELECT count(*)::int FROM onramp.replays") == [(0,)])
    inline.send(5)
    eventually(lambda: inline.landed() == inline.accepted + 20)
    _balanced(inline, 20)
    shown = f'onramp_writer_replays_total{{database="{inline.database}",outcome="landed"}}'
    eventually(lambda: again.shown.get(shown, 0) == (20 if place == "writer.mid_replay" else 0))


def test_a_database_that_goes_away_in_mid_replay_gets_it_when_it_is_back(
    inline: Scene, other: Other, places: Places
) -> None:
    """A drain goes first; the first attempt is as if it had never been."""
    writer: Inline = inline.writer_into(other, own=False, **_QUICK)
    inline.send(5)
    inline.produce(*(_bad(f"bad-{i}", inline.name) for i in range(10)))
    count = "SELECT sum(events)::int FROM onramp.totals WHERE outcome = %s"
    eventually(lambda: rows(other.dsn, count, "parked") == [(10,)])
    places.at("writer.mid_replay", other.close)
    assert _stage(other.dsn, inline.name) == 10
    eventually(lambda: writer.states[other.name] == "out")
    inline.send(5)
    other.open()
    eventually(lambda: landed(other.dsn, inline.name) == 20)
    assert rows(other.dsn, "SELECT outcome, count(*)::int FROM onramp.replayed GROUP BY 1") == [
        ("landed", 10)
    ]
    assert rows(other.dsn, count, "replayed") == [(10,)]
    inline.audited(other)


def test_audit_reports_replayed_rows_and_replay_records_lost_by_a_restored_dump(inline: Scene) -> None:
    inline.writer(**_QUICK)
    _parked(inline, 3)
    _stage(inline.dsn, inline.name)
    _balanced(inline, 3)
    execute(
        inline.dsn,
        "INSERT INTO onramp.totals SELECT topic_id, topic, partition, destination, 'replayed_duplicate', 1 "
        "FROM onramp.totals WHERE outcome = 'replayed' LIMIT 1",
    )
    assert {Code.WRONG_TOTAL} == _found(inline)
    execute(inline.dsn, "DELETE FROM onramp.totals WHERE outcome = 'replayed_duplicate'")
    gone = min(i for (i,) in inline.query("SELECT _id FROM TABLE WHERE _id LIKE 'fixed%'"))
    execute(inline.dsn, f"DELETE FROM events.{inline.name} WHERE _id = '{gone}'")  # noqa: S608
    assert {Code.LOST, Code.WRONG_TOTAL} == _found(inline)
    execute(inline.dsn, "DELETE FROM onramp.replayed")
    assert {Code.DOUBLE_TERMINAL, Code.WRONG_TOTAL} == _found(inline)


def _found(scene: Scene) -> set[Code]:
    request = Request(
        Brokers(scene.bootstrap), {scene.database: scene.dsn}, re.escape(scene.topic), deep=True
    )
    return {f.code for f in asyncio.run(audit(request)).findings}
