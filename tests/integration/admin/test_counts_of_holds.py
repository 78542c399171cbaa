"""Counts of events behind holds: exact up to a maximum, from the totals above it."""

from typing import Any
from uuid import uuid4

import psycopg2
import pytest

from services.ops.operate import holds_sql
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import execute

MAX = 100


def wait(dsn: str, event_type: str, destination: str, events: int, total: int) -> None:
    """Have events wait on a topic of their own, of which the totals have another number."""
    topic_id = uuid4()
    execute(
        dsn,
        'INSERT INTO onramp.waiting (topic_id, topic, partition, "offset", destination, db_schema, '  # noqa: S608
        "db_table, typed, event_type, code, value, timestamp) "
        f"SELECT '{topic_id}', 'events.t', 0, n, '{destination}', 's', 't', false, '{event_type}', 'paused', "
        f"'', now() FROM generate_series(1, {events}) n;"
        "INSERT INTO onramp.totals (topic_id, topic, partition, destination, outcome, events) "
        f"VALUES ('{topic_id}', 'events.t', 0, '{destination}', 'waiting', {total}), "
        f"('{topic_id}', 'events.t', 0, '{destination}', 'landed', 5)",
    )


@pytest.fixture
def held(migrated: Database, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with a paused type of two topics and tables, a small one, and a blocked table."""
    monkeypatch.setattr(holds_sql, "MAX_COUNTED", MAX)
    execute(
        migrated.dsn,
        "INSERT INTO onramp.holds (kind, name, state) VALUES ('type', 'big', 'paused'), "
        "('type', 'small', 'paused'), ('table', 's.big', 'blocked'), ('type', 'none', 'paused')",
    )
    wait(migrated.dsn, "big", "s.big", 150, 1_000)
    wait(migrated.dsn, "big", "s.also", 150, 2_000)
    wait(migrated.dsn, "other", "s.big", 150, 10_000)
    wait(migrated.dsn, "small", "s.small", MAX, 20_000)
    return migrated.dsn


def test_few_events_are_counted_and_many_are_those_of_the_totals(held: str) -> None:
    holds = {hold.name: (hold.waiting, hold.oldest is not None) for hold in holds_sql.holds("onramp", held)}
    assert holds == {"big": (3_000, True), "none": (0, False), "s.big": (11_000, True), "small": (MAX, True)}


def test_no_more_rows_than_the_maximum_are_read(held: str) -> None:
    execute(held, "ANALYZE onramp.waiting")
    with psycopg2.connect(held) as conn, conn.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")  # the table of the test is small
        cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + holds_sql._READ, {"max": MAX})
        ((document,),) = cursor.fetchall()
    conn.close()
    scans = list(_scans(document[0]["Plan"]))
    assert {"Index Scan", "Index Only Scan"} >= {scan["Node Type"] for scan in scans}
    assert all(scan["Actual Rows"] <= MAX + 1 and not scan.get("Rows Removed by Filter") for scan in scans)


def _scans(node: dict[str, Any]) -> Any:
    if node.get("Relation Name") == "waiting":
        yield node
    for child in node.get("Plans", ()):
        yield from _scans(child)
