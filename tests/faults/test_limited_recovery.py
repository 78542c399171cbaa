"""A plan from before a database's outage lands in pieces within its limits."""

import threading

import orjson
import psycopg2
import pytest

from services.writer.databases.database_states import Databases
from services.writer.park.diverted_topic import HEADER
from shared import wire
from shared.migrations import DATABASE_LOCK
from tests.fixtures.inline import Inline, KilledError, Places
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import eventually, landed, make_topics, records, rows

RATE, SENT = 20, 90


def test_a_plan_of_a_time_when_it_was_out_lands_in_pieces(
    inline: Scene, other: Other, places: Places
) -> None:
    """The dead writer's plan is repeated as it is, and it knew of no limit: the database was out."""
    make_topics(inline.bootstrap, inline.topic)
    registry = inline.route(other)
    databases = orjson.dumps({other.name: {"dsn": other.dsn, "max_rows_per_second": RATE}}).decode()

    def writer() -> Inline:
        started: Inline = inline.writer(registry=registry, databases=databases, wait=False)
        return started

    other.close()
    places.kill_at("writer.between_divert_and_marker")
    inline.send(SENT)
    assert isinstance(writer().ended(), KilledError)
    other.open()
    second = writer()
    eventually(lambda: landed(other.dsn, inline.name) == SENT)
    inline.all_landed_once()
    eventually(lambda: set(second.states.values()) == {"landing"})
    together = f"SELECT count(*)::int FROM events.{inline.name} GROUP BY xmin::text"  # noqa: S608
    assert max(rows(other.dsn, together)) <= (RATE,)
    assert landed(other.dsn, inline.name) == SENT


def test_a_database_that_answers_a_moment_later_takes_the_first_batch(
    inline: Scene, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the first events would wait on Kafka, and raise all figures of latency."""
    waits = threading.Event()
    wait_first_tries = Databases.wait_first_tries

    async def wait(databases: Databases, _: float) -> None:
        waits.set()
        await wait_first_tries(databases, 120)

    monkeypatch.setattr(Databases, "wait_first_tries", wait)
    make_topics(inline.bootstrap, inline.topic)
    inline.send(3)
    conn = psycopg2.connect(other.dsn)
    try:
        with conn, conn.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (DATABASE_LOCK,))
            writer = inline.writer_into(other, wait=False)
            eventually(lambda: waits.is_set() or inline.landed() == inline.accepted)
    finally:
        conn.close()
    inline.all_landed_once()
    eventually(lambda: landed(other.dsn, inline.name) == 3)
    kept = records(inline.bootstrap, wire.SYSTEM_ERRORS)
    assert not [r for r in kept if other.name.encode() in r.headers[HEADER]]
    assert set(writer.states.values()) == {"landing"}  # type: ignore[attr-defined]
