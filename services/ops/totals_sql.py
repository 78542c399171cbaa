"""One snapshot of a database: ledger, totals, outbox and the rows with their receipts.

Owns psycopg2 for the admin service.  Everything is read in one read-only transaction at
REPEATABLE READ, so a running writer cannot make totals inconsistent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from sys import intern
from typing import Any, Final, NamedTuple, Self

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection, cursor

from services.ops import audited_database_sql
from services.ops.audited_database_sql import has_failed
from services.ops.findings import Generation, Replayed, Source, Table
from services.ops.offset_ranges import Span
from services.ops.times import as_time
from shared import landing_columns, wire
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from shared.landing_columns import Column, Part


def _typed(columns: Iterable[Column]) -> str:
    return ", ".join(f"('{c.name}', '{c.type}'::regtype)" for c in columns)


_ADDRESS: Final = "--dsn or ONRAMP_WRITER_DSN (else where `onramp up` listens)"
_AT_ONCE: Final = 2000

#: The columns of every landing table, of any release.
_FIRST: Final = [c for c in landing_columns.COLUMNS if not c.is_later and c.part is not Part.ORIGIN]
#: Columns that tables of an event type's schema have too.
_SHARED: Final = [c for c in _FIRST if c.name != landing_columns.PAYLOAD]
_RECEIPT: Final = ", ".join(landing_columns.named(Part.RECEIPT))
#: Times as text: Python's have only the years 1 to 9999.
_EVENT: Final = ", ".join(
    f"{c.name}::text" if c.type == "timestamptz" else c.name
    for c in _SHARED
    if c.part in (Part.KEY, Part.CONTENT)
)
#: Tables with receipts, identified by their columns, so that a moved table is found.  Landing tables store
#: the whole payload.  The others have `_id` as their only key (an event that another key refuses has no row
#: with its id), and each column that can be compared with its field is listed with its type.
_IS_LANDING: Final = (
    f"(each.landing = {len(_FIRST)} AND (n.nspname = '{landing_columns.SCHEMA}' OR each.others = 0))"
)
_TABLES: Final = f"""
    SELECT n.nspname::text, c.relname::text,
           {_IS_LANDING}, each.fields,
           has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE (a.attname, a.atttypid) IN ({_typed(_FIRST)})) AS landing,
               count(*) FILTER (
                   WHERE a.attnotnull AND (a.attname, a.atttypid) IN ({_typed(_SHARED)})) AS shared,
               count(*) FILTER (WHERE a.attname <> ALL (%(own)s)) AS others,
               coalesce(jsonb_object_agg(a.attname, t.typname) FILTER (
                   WHERE a.attname <> ALL (%(filled)s) AND t.typname = ANY (%(types)s) AND a.attgenerated = ''
               ), '{{}}') AS fields
        FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS each
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname <> 'onramp'
      AND ({_IS_LANDING} OR each.shared = {len(_SHARED)} AND (
        SELECT bool_and(i.indnkeyatts = 1 AND i.indpred IS NULL AND coalesce(a.attname = '_id', false))
        FROM pg_index i LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion)))
    ORDER BY 1, 2
"""  # noqa: S608 - the definition's own names
_OWN: Final = {
    "own": [c.name for c in landing_columns.COLUMNS],
    "filled": [c.name for c in landing_columns.COLUMNS if c.name != landing_columns.PAYLOAD],
    "types": ["int8", "numeric", "text", "bool", "timestamptz", "date", "uuid", "jsonb"],
}
_LEDGER: Final = "SELECT topic_id::text, topic, partition, next_offset FROM onramp.ledger"
_TOTALS: Final = "SELECT topic_id::text, topic, partition, destination, outcome, events FROM onramp.totals"
_UNDER: Final = """
    SELECT topic_id::text, topic, partition, start, "end", digest FROM (
        SELECT id, topic_id, topic, partition, start, "end", digest FROM onramp.settled_under
        UNION ALL
        SELECT NULL, topic_id, topic, partition, since, upto, digest FROM onramp.ledger
        WHERE digest IS NOT NULL
    ) AS told ORDER BY id NULLS LAST
"""
_OUTBOX: Final = 'SELECT topic_id::text, topic, partition, "offset", destination FROM onramp.outbox'
_WAITING: Final = 'SELECT topic_id::text, topic, partition, "offset", destination FROM onramp.waiting'
_REPLAYED: Final = """
    SELECT topic_id::text, topic, partition, "offset", destination, outcome, "to", sha256,
        CASE WHEN sha256 IS NOT NULL THEN job::text END
    FROM onramp.replayed WHERE outcome IN ('landed', 'duplicate')
"""
_COUNTS: Final = "SELECT _topic, _partition, count(*) FROM {} GROUP BY 1, 2"
_REPEATED: Final = f"""
    SELECT {_RECEIPT}, count(*) FROM {{}} GROUP BY 1, 2, 3 HAVING count(*) > 1
    ORDER BY 1, 2, 3
"""  # noqa: S608 - the definition's own names
_ROWS: Final = f"""
    SELECT {_RECEIPT}, {_EVENT}, {{}} FROM {{}}
    WHERE _topic = %s AND _partition = %s ORDER BY _offset
"""  # noqa: S608 - the definition's own names
_BY_ID: Final = f"""
    SELECT {_RECEIPT}, {_EVENT}, {{}} FROM {{}}
    WHERE _id = ANY (%s)
"""  # noqa: S608 - the definition's own names


class Row(NamedTuple):
    """A landed event and its receipt."""

    source: Source
    offset: int
    id: str
    event_name: str
    #: None outside the years 1 to 9999.
    timestamp: datetime | None
    version: str
    #: JSON: the payload, or the columns of a table of a schema.
    payload: str
    #: The comparable columns and their types; None if the payload is stored whole.
    fields: Mapping[str, str] | None = None


class OutboxRow(NamedTuple):
    """A parked event on its way to the topic, or a waiting one; `destination` as in the table."""

    generation: Generation
    offset: int
    destination: str


@dataclass(slots=True)
class Snapshot:
    """A snapshot of one database.  Valid inside `opened` only."""

    database: str
    conn: connection
    ledger: dict[Generation, int] = field(default_factory=dict)
    #: The routes of settled offset ranges, in the order written.
    spans: dict[Generation, list[Span]] = field(default_factory=dict)
    #: (generation, schema.table, outcome) -> events
    totals: dict[tuple[Generation, str, str], int] = field(default_factory=dict)
    outbox: list[OutboxRow] = field(default_factory=list)
    #: Events that wait in the database itself.
    waiting: list[OutboxRow] = field(default_factory=list)
    #: Parked events that landed later, or were there already.
    replayed: dict[Generation, list[Replayed]] = field(default_factory=dict)
    #: Tables with receipts; for tables of a schema, the types of columns as in `Row.fields`.
    tables: dict[Table, Mapping[str, str] | None] = field(default_factory=dict)
    #: Tables with receipts that the current role may not read.
    unreadable: frozenset[Table] = frozenset()

    def load(self) -> Self:
        """Read Onramp's own tables."""
        with self.conn.cursor() as cursor:
            self.ledger = read_ledger(cursor)
            cursor.execute(_UNDER)
            for i, t, p, *span in cursor.fetchall():
                self.spans.setdefault(Generation(i, Source(t, p)), []).append(Span(*span))
            self.totals = read_totals(cursor)
            cursor.execute(_OUTBOX)
            self.outbox = [
                OutboxRow(Generation(i, Source(t, p)), o, d) for i, t, p, o, d in cursor.fetchall()
            ]
            cursor.execute(_WAITING)
            self.waiting = [
                OutboxRow(Generation(i, Source(t, p)), o, d) for i, t, p, o, d in cursor.fetchall()
            ]
            cursor.execute(_REPLAYED)
            for i, t, p, offset, destination, outcome, to, digest, job in cursor.fetchall():
                edited = None if digest is None else bytes(digest)
                replayed = Replayed(offset, destination, outcome, to, edited, job and intern(job))
                self.replayed.setdefault(Generation(i, Source(t, p)), []).append(replayed)
            cursor.execute(_TABLES, _OWN)
            found = [
                (Table(self.database, schema, name), *of)
                for schema, name, *of in cursor.fetchall()
                if name != wire.PROBE_EVENT
            ]
            self.tables = {t: None if is_landing else fields for t, is_landing, fields, may in found if may}
            self.unreadable = frozenset(t for t, *_, may in found if not may)
        return self

    def counts(self, table: Table) -> dict[Source, int]:
        """Count the rows of a table by the source in their receipts."""
        return {Source(t, p): n for t, p, n in self._all(_COUNTS, table)}

    def repeated(self, table: Table) -> list[tuple[Source, int, int]]:
        """Return receipts (source, offset) in more than one row, and the number of rows."""
        return [(Source(t, p), o, n) for t, p, o, n in self._all(_REPEATED, table)]

    def rows(self, table: Table, source: Source) -> Iterator[Row]:
        """Yield the rows with receipts of `source`, by offset; the server sends them in parts."""
        name = f"onramp_{table.name}_{source}".replace("/", "_")[:60]
        with self.conn.cursor(name) as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(self._reading(_ROWS, table), tuple(source))
            for row in cursor:
                yield self._row(table, row)

    def by_id(self, table: Table, ids: Sequence[str]) -> dict[str, Row]:
        """Return the rows with these ids, by id."""
        with self.conn.cursor() as cursor:
            cursor.execute(self._reading(_BY_ID, table), (list(ids),))
            return {row[3]: self._row(table, row) for row in cursor.fetchall()}

    def exists(self, table: Table) -> bool:
        """Return whether the database has this table with readable receipts."""
        return table in self.tables

    def _reading(self, statement: str, table: Table) -> sql.Composed:
        """Return a statement with parameters, in which a name's % is doubled."""
        fields = self.tables.get(table)
        payload: sql.Composable = sql.SQL("payload::text")
        if fields is not None:
            names = sql.SQL(", ").join(_with_parameters(name) for name in fields)
            payload = sql.SQL("(SELECT to_jsonb(f) FROM (SELECT {}) AS f)::text").format(names)
        return sql.SQL(statement).format(payload, _with_parameters(table.schema, table.name))

    def _row(self, table: Table, row: tuple[Any, ...]) -> Row:
        found = Row._make((Source(*row[:2]), *row[2:], self.tables.get(table)))
        return found._replace(timestamp=as_time(row[5]))

    def _all(self, statement: str, table: Table) -> Iterable[tuple[Any, ...]]:
        with self.conn.cursor() as cursor:
            cursor.execute(_in(statement, table))
            return cursor.fetchall()


def read_ledger(cur: cursor) -> dict[Generation, int]:
    """Return the next offset of each partition that the database knows."""
    cur.execute(_LEDGER)
    return {Generation(i, Source(t, p)): next_offset for i, t, p, next_offset in cur.fetchall()}


def read_totals(cur: cursor) -> dict[tuple[Generation, str, str], int]:
    """Return the number of events by (generation, schema.table, outcome)."""
    cur.execute(_TOTALS)
    return {(Generation(i, Source(t, p)), d, o): n for i, t, p, d, o, n in cur.fetchall()}


def _with_parameters(*name: str) -> sql.Identifier:
    return sql.Identifier(*(part.replace("%", "%%") for part in name))


def _in(statement: str, table: Table) -> sql.Composed:
    return sql.SQL(statement).format(sql.Identifier(table.schema, table.name))


@contextmanager
def opened(database: str, dsn: str) -> Iterator[Snapshot]:
    """Open a snapshot of the database at `dsn`, and close it at the end.

    Raises `InfrastructureError` if no writer has prepared it, or it cannot be read
    (`UnreachableDatabaseError`: its server does not answer).
    """
    what = f"database {database}"
    with audited_database_sql.opened(database, what, dsn, _ADDRESS) as conn:
        try:
            yield Snapshot(database, conn).load()
        except psycopg2.Error as e:
            if not has_failed(conn):
                raise
            raise InfrastructureError(
                DATABASE_UNAVAILABLE, f"{what} cannot be read: SQLSTATE {e.pgcode or 'none'}"
            ) from None
