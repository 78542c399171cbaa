"""Query plans of list pages use the index of their order, also without statistics."""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import psycopg2
import pytest
from psycopg2.extensions import cursor

from services.admin.store import read_sql
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.writer import execute, rows
from tests.integration.admin.parked_samples import keeping

#: As after a flood: many rows, of which nothing is known yet.  How many they are Postgres multiplies from the
#: rows of a page and the pages that there are.
FLOOD: Final = """
    ALTER TABLE onramp_admin.parked SET (autovacuum_enabled = false);
    ALTER TABLE onramp_admin.states SET (autovacuum_enabled = false);
    INSERT INTO onramp_admin.groups (fingerprint, version, code, destination, events, first_seen, last_seen)
    VALUES ('x', 1, 'x', 'd', 6, now(), now());
    INSERT INTO onramp_admin.parked (topic_id, topic, partition, "offset", destination, group_id, code,
                                     event_id, event_name, parked_at, reason, size)
    SELECT gen_random_uuid(), 't', 0, n, 'd', 1, 'x', n, 'a', now(), '{"n": 1}', 3
    FROM generate_series(1, 5000) n;
    UPDATE pg_class SET relpages = 1, reltuples = 1e6 * 8192 / pg_relation_size(oid)
    WHERE oid IN ('onramp_admin.parked'::regclass, 'onramp_admin.states'::regclass)
"""
INDEXES: Final = {
    "event_id": "events_of_id",
    "event_name": "events_of_name",
    "code": "events_of_code",
    "destination": "events_of_destination",
    "group": "events_of_group",
}


class Noting(cursor):
    """Records its calls."""

    said = ""

    def execute(self, query: Any, parameters: Any = None) -> None:
        super().execute(query, parameters)
        Noting.said = self.query.decode()


GROUPS: Final = """
    INSERT INTO onramp_admin.groups (fingerprint, version, code, events, first_seen, last_seen)
    VALUES ('x', 1, '1', 1, now(), now()), ('y', 1, '2', 1, now(), now());
"""
#: A tenth that is older than all others, and Postgres knows how many they are.
OLD: Final = """
    INSERT INTO onramp_admin.parked (topic_id, topic, partition, "offset", destination, group_id, code,
                                     event_id, event_name, parked_at, reason, size)
    SELECT gen_random_uuid(), 't', 0, n, of, of::int8, of, of, of, now(), '{"n": 1}', 3
    FROM generate_series(1, 40000) n, LATERAL (SELECT (1 + (n > 4000)::int)::text AS of) o;
    ANALYZE onramp_admin.parked, onramp_admin.states
"""


@pytest.fixture(scope="module")
def flooded(templates: Templates) -> Iterator[str]:
    with keeping(templates) as (dsn, _):
        execute(dsn, FLOOD)
        assert rows(dsn, "SELECT count(*) FROM pg_stats WHERE schemaname = 'onramp_admin'") == [(0,)]
        yield dsn


@pytest.mark.parametrize(("name", "index"), INDEXES.items())
def test_a_page_is_read_by_the_index_of_its_filter_and_never_sorted(
    flooded: str, name: str, index: str
) -> None:
    wanted = 7 if name == "group" else "7"
    with closing(psycopg2.connect(flooded, cursor_factory=Noting)) as conn:
        read_sql.events(conn, {name: wanted}, None, 50)
    plan = "\n".join(line for (line,) in rows(flooded, f"EXPLAIN {Noting.said}"))
    assert f"Index Scan Backward using {index} " in plan, plan
    assert "Sort" not in plan


@pytest.mark.parametrize(("name", "index"), INDEXES.items())
def test_a_page_of_what_is_old_does_not_go_past_all_that_is_newer(
    templates: Templates, name: str, index: str
) -> None:
    wanted = 1 if name == "group" else "1"
    with keeping(templates) as (dsn, _):
        execute(dsn, GROUPS + OLD)
        with closing(psycopg2.connect(dsn, cursor_factory=Noting)) as conn:
            first = read_sql.events(conn, {name: wanted}, None, 50)
            assert [e.offset for e in first] == list(range(4000, 3950, -1))
            second = read_sql.events(conn, {name: wanted}, (first[-1].id,), 5000)
            assert [e.offset for e in second] == list(range(3950, 0, -1))
            read_sql.events(conn, {name: wanted}, (first[-1].id,), 50)
        plan = "\n".join(line for (line,) in rows(dsn, f"EXPLAIN {Noting.said}"))
    assert f"Index Scan Backward using {index} " in plan, plan
    # Where the page begins is a bound of the index: a deep one costs what the first does.
    assert re.search(r"Index Cond: \(.*ROW\(\w+, id\) < ", plan), plan
    assert "Sort" not in plan
