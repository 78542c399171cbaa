"""Reads landed transactions of a source: their END records, and the changes of each table.

It uses the audit's snapshot of a database, so all data is consistent.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import connection

from services.ops.findings import Generation, Source
from shared import change_table, wire

#: Whether a table exists, and whether this role may read it: an audit's role may have few rights.
_THERE: Final = """
    SELECT c.oid IS NOT NULL, coalesce(
        has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'), false)
    FROM (SELECT %s::text AS schema, %s::text AS name) AS asked
    LEFT JOIN pg_namespace n ON n.nspname = asked.schema
    LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = asked.name
"""
_TABLES: Final = """
    SELECT source, schema_name, table_name, landing, trimmed_to IS NOT NULL OR past_topics <> '{}'
    FROM onramp.table_settings ORDER BY 1, 2, 3
"""
_ROWS: Final = """
    SELECT coalesce(sum(greatest(reltuples, 0)), 0)::int8
    FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r'
"""
#: The LSN up to which the agent has confirmed a source's changes in Kafka.
_CONFIRMED: Final = (
    "SELECT source, confirmed_lsn - '0/0' FROM onramp_agent.sources WHERE confirmed_lsn IS NOT NULL"
)
#: A source's transactions with fewer changes of a table than their END counted.
#:
#: A killed connector sends changes again: each position in the transaction counts once, and the lowest of
#: several ENDs.  Excluded are transactions before the table's last snapshot, which includes their changes,
#: and those up to the first one left in a landing table that was trimmed, or that follows another topic.
_LACKING: Final = sql.SQL("""
    WITH told AS (
        SELECT split_part(e.change ->> 'id', ':', 1)::int8 AS xid,
               min(split_part(e.change ->> 'id', ':', 2)::numeric) AS lsn,
               min((c ->> 'event_count')::int8) AS events
        FROM {transactions} e, jsonb_array_elements(
            CASE jsonb_typeof(e.change -> 'data_collections') WHEN 'array'
            THEN e.change -> 'data_collections' ELSE '[]' END) c
        WHERE e.change ->> 'status' = 'END' AND c ->> 'data_collection' = %(collection)s GROUP BY 1
    ), landed AS (
        SELECT (change #>> '{{source,txId}}')::int8 AS xid,
               count(DISTINCT (change #>> '{{transaction,total_order}}')::int8) AS n
        FROM {landing} WHERE change ->> 'op' <> 'r' GROUP BY 1
    ), first AS (
        SELECT (change #>> '{{source,txId}}')::int8 AS xid FROM {landing}
        WHERE change ->> 'op' <> 'r' ORDER BY _offset LIMIT 1
    ), edges AS (
        SELECT max((change #>> '{{source,lsn}}')::numeric) FILTER (WHERE change ->> 'op' = 'r') AS snapshot,
               max(((change #>> '{{source,sequence}}')::jsonb ->> 0)::numeric)
                   FILTER (WHERE change ->> 'op' <> 'r') AS passed,
               CASE WHEN %(trimmed)s THEN (
                   SELECT coalesce(max(lsn), 'infinity') FROM told JOIN first USING (xid)) END AS trimmed
        FROM {landing}
    )
    SELECT t.xid, t.lsn, t.events, coalesce(l.n, 0), t.lsn <= edges.passed
    FROM told t LEFT JOIN landed l USING (xid) CROSS JOIN edges
    WHERE t.events > coalesce(l.n, 0) AND t.lsn > greatest(edges.snapshot, edges.trimmed, 0) ORDER BY t.lsn
""")
_NONE_LANDED: Final = sql.SQL("""
    (SELECT 0 AS _partition, 0::int8 AS _offset, '{{}}'::jsonb AS change WHERE false) AS nothing
""")


class SourceTable(NamedTuple):
    """A source's table, its landing table, and whether the oldest changes were deleted.

    Deletion is by `keep_landing`, or with their topic.
    """

    source: str
    schema: str
    table: str
    landing: str
    is_trimmed: bool

    @property
    def collection(self) -> str:
        """Return the name as in an END record."""
        return f"{self.schema}.{self.table}"


class Lacking(NamedTuple):
    """A transaction with `landed` changes in a table's landing, and `announced` changes by its END.

    `lsn`: of its commit.  `is_passed`: a later transaction's changes of the table have landed.
    """

    xid: int
    lsn: int
    announced: int
    landed: int
    is_passed: bool


def tables(conn: connection) -> list[SourceTable]:
    """Return the tables of sources whose transactions have landed here, and that this role may read."""
    if not _there(conn, "onramp", "table_settings").is_readable:
        return []
    with conn.cursor() as cursor:
        cursor.execute(_TABLES)
        found = [SourceTable(*row) for row in cursor.fetchall()]
    ends = {s: change_table.transactions_of(s) for s in {table.source for table in found}}
    told = {s for s, name in ends.items() if _there(conn, change_table.SCHEMA, name).is_readable}
    return [t for t in found if t.source in told and not _is_closed(conn, t.landing)]


def rows(conn: connection) -> int:
    """Return the approximate number of landed changes."""
    return int(_one(conn, _ROWS, change_table.SCHEMA))


def confirmed(conn: connection) -> dict[str, int]:
    """Return by source the LSN up to which Kafka has all changes."""
    if not _there(conn, "onramp_agent", "sources").is_readable:
        return {}
    with conn.cursor() as cursor:
        cursor.execute(_CONFIRMED)
        return {source: int(lsn) for source, lsn in cursor.fetchall()}


def lacking(conn: connection, table: SourceTable, limit: int) -> list[Lacking]:
    """Return transactions with missing changes of `table`, the oldest first."""
    landing: sql.Composable = sql.Identifier(change_table.SCHEMA, table.landing)
    statement = _LACKING.format(
        transactions=sql.Identifier(change_table.SCHEMA, change_table.transactions_of(table.source)),
        landing=landing if _there(conn, change_table.SCHEMA, table.landing).exists else _NONE_LANDED.format(),
    )
    with conn.cursor() as cursor:
        cursor.execute(statement, {"collection": table.collection, "trimmed": table.is_trimmed})
        return [
            Lacking(xid=xid, lsn=int(lsn), announced=told, landed=landed, is_passed=bool(passed))
            for xid, lsn, told, landed, passed in cursor.fetchmany(limit)
        ]


def fed_by(totals: Iterable[tuple[Generation, str, str]]) -> dict[str, set[Generation]]:
    """Return by landing table the topic generations that feed it."""
    found: dict[str, set[Generation]] = defaultdict(set)
    for generation, destination, _ in totals:
        schema, _, name = destination.partition(".")
        if schema == change_table.SCHEMA:
            found[name].add(generation)
    return found


def topic_of(table: SourceTable, feeds: dict[str, set[Generation]]) -> Source:
    """Return the topic of the table's changes, also for a table without any change."""
    fed = sorted(generation.source for generation in feeds.get(table.landing, ()))
    return (
        fed[-1]
        if fed
        else Source(f"{wire.CHANGE_TOPIC_PREFIX}{table.source}-{table.schema}-{table.table}", 0)
    )


class _There(NamedTuple):
    exists: bool
    is_readable: bool


def _there(conn: connection, schema: str, name: str) -> _There:
    with conn.cursor() as cursor:
        cursor.execute(_THERE, (schema, name))
        return _There(*(cursor.fetchone() or (False, False)))


def _is_closed(conn: connection, landing: str) -> bool:
    there = _there(conn, change_table.SCHEMA, landing)
    return there.exists and not there.is_readable


def _one(conn: connection, statement: str, *arguments: object) -> Any:
    with conn.cursor() as cursor:
        cursor.execute(statement, arguments)
        (value,) = cursor.fetchone() or (None,)
    return value
