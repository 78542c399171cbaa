"""Finds an event's rows in tables: by its id where the table has that key, else by its receipt."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection

from services.ops.findings import Source, Table
from services.ops.journey.database_facts_sql import reading
from services.ops.journey.subject import Receipt
from services.ops.times import as_time
from shared import change_table
from shared.postgres.connect import has_table
from shared.postgres.quoting import identifier, literal

_ID: Final = "_id"
_RECEIPT: Final = ("_topic", "_partition", "_offset")
_TEXTS: Final = frozenset({"text", "varchar", "bpchar"})
#: Columns that Onramp fills, whether `_id` leads an index, and whether this role may read the table.
_COLUMNS: Final = """
    SELECT n.nspname::text, c.relname::text,
           has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'),
           coalesce(jsonb_object_agg(a.attname, t.typname) FILTER (WHERE a.attname = ANY (%(own)s)), '{}'),
           coalesce(bool_or(a.attname = '_id' AND i.leads), false)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    CROSS JOIN LATERAL (SELECT EXISTS (
        SELECT FROM pg_index x WHERE x.indrelid = c.oid AND x.indkey[0] = a.attnum AND x.indisvalid
            AND x.indpred IS NULL) AS leads) i
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%(schemas)s::text[], %(names)s::text[]))
    GROUP BY n.oid, n.nspname, c.oid, c.relname
"""
#: All readable tables with the key and its type, the same for a table that events do not go to any more.
_WITH_KEY: Final = """
    SELECT n.nspname::text, c.relname::text, t.typname::text
    FROM pg_attribute k JOIN pg_class c ON c.oid = k.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_type t ON t.oid = k.atttypid
    WHERE k.attname = '_id' AND NOT k.attisdropped AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND n.nspname NOT IN ('onramp', 'onramp_admin', 'onramp_agent', 'pg_catalog', 'information_schema')
    AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
    AND EXISTS (
        SELECT FROM pg_index x
        WHERE x.indrelid = c.oid AND x.indkey[0] = k.attnum AND x.indisvalid AND x.indpred IS NULL)
"""
_OWN: Final = [_ID, *_RECEIPT, "_event_name", "_received_at", change_table.CHANGE]
_CHANGES: Final = """
    SELECT (change #>> '{{source,lsn}}')::numeric, change ->> 'op', (change #>> '{{source,txId}}')::int8,
           change ->> 'id'
    FROM {table} WHERE _offset = %s AND _partition = %s
"""
_COMMIT: Final = """
    SELECT split_part(change ->> 'id', ':', 2)::numeric FROM {table}
    WHERE change ->> 'status' = 'END' AND split_part(change ->> 'id', ':', 1) = %s LIMIT 1
"""
_MERGED: Final = """
    SELECT schema_name, table_name, next_offset, trimmed_to, suspended_since, reason
    FROM onramp.table_settings
    WHERE landing = %s
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table that Onramp fills, with their types.  None of it exists without the table."""

    exists: bool = False
    is_readable: bool = False
    has_key: bool = False
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def has_receipt(self) -> bool:
        """Return whether rows have the receipts of their events."""
        return self.columns.keys() >= set(_RECEIPT)


class EventRow(NamedTuple):
    """A row, as far as its table has Onramp's columns; `sql` shows it."""

    table: Table
    receipt: Receipt | None
    id: str | None
    event_name: str | None
    received_at: datetime | None
    sql: str


class Change(NamedTuple):
    """A landed change of a source.  `lsn`: its own; `commit_lsn`: its transaction's, if END has landed."""

    lsn: int | None
    op: str | None
    commit_lsn: int | None
    sql: str


class Merge(NamedTuple):
    """How far the public table of a landing table is merged, and why not further."""

    schema: str
    table: str
    next_offset: int
    trimmed_to: int | None
    suspended_since: datetime | None
    reason: str | None


@dataclass(slots=True)
class TableAnswers:
    """The answers of one database about its tables."""

    layouts: dict[Table, Layout] = field(default_factory=dict)
    rows: list[EventRow] = field(default_factory=list)
    #: By table: the SQLSTATE for which it was not searched.
    failures: dict[Table, str] = field(default_factory=dict)
    #: By landing table of a source.
    changes: dict[Table, list[Change]] = field(default_factory=dict)
    merges: dict[Table, list[Merge]] = field(default_factory=dict)
    #: The number of tables with the key; more than the limit are not searched.
    tables_with_key: int = 0


def rows_of(
    database: str, dsn: str, tables: Iterable[Table], id_: str | None, receipt: Receipt
) -> TableAnswers:
    """Return the rows of an event in `tables` of one database, by its id and by its receipt.

    Raises `InfrastructureError`.
    """
    wanted = sorted(set(tables))
    answers = TableAnswers()
    with reading(f"database {database}", dsn) as conn:
        answers.layouts = dict.fromkeys(wanted, Layout()) | _layouts(conn, database, wanted)
        for table in wanted:
            if not answers.layouts[table].is_readable:
                continue
            try:
                if table.schema == change_table.SCHEMA:
                    _read_changes(conn, table, receipt, answers)
                else:
                    answers.rows += _rows(conn, table, answers.layouts[table], id_, receipt)
            except psycopg2.Error as e:  # the other tables are read all the same
                answers.failures[table] = e.pgcode or "none"
    return answers


def rows_by_id(database: str, dsn: str, id_: str, tables: Iterable[Table] | None, limit: int) -> TableAnswers:
    """Return the rows with this id in the tables that have that key: in `tables`, or in all of the database.

    More than `limit` tables are not searched, and described by their keys alone.
    Raises `InfrastructureError`.
    """
    answers = TableAnswers()
    with reading(f"database {database}", dsn) as conn:
        keyed = _tables_with_key(conn, database, id_) if tables is None else {}
        if len(keyed) > limit:
            answers.layouts, answers.tables_with_key = keyed, len(keyed)
            return answers
        named = keyed if tables is None else set(tables)
        answers.layouts = {
            table: layout
            for table, layout in _layouts(conn, database, sorted(named)).items()
            if layout.has_key and layout.is_readable and _has_value(layout.columns[_ID], id_)
        }
        answers.tables_with_key = len(answers.layouts)
        if answers.tables_with_key > limit:
            return answers
        for table, layout in answers.layouts.items():
            try:
                answers.rows += _rows(conn, table, layout, id_, None)
            except psycopg2.Error as e:
                answers.failures[table] = e.pgcode or "none"
    return answers


def _tables_with_key(conn: connection, database: str, id_: str) -> dict[Table, Layout]:
    """Return the tables whose key can have this id, with the key alone: a database may have hundreds."""
    with conn.cursor() as cursor:
        cursor.execute(_WITH_KEY)
        return {
            Table(database, schema, name): Layout(True, True, True, {_ID: type_})
            for schema, name, type_ in cursor.fetchall()
            if _has_value(type_, id_)
        }


def _layouts(conn: connection, database: str, tables: Sequence[Table]) -> dict[Table, Layout]:
    if not tables:
        return {}
    values = {
        "own": _OWN,
        "schemas": [table.schema for table in tables],
        "names": [table.name for table in tables],
    }
    with conn.cursor() as cursor:
        cursor.execute(_COLUMNS, values)
        return {
            Table(database, schema, name): Layout(True, readable, has_key, columns)
            for schema, name, readable, columns, has_key in cursor.fetchall()
        }


def _has_value(type_: str, id_: str) -> bool:
    """Return whether a key of this type can have this id; others are not Onramp's."""
    if type_ == "uuid":
        try:
            return bool(UUID(id_))
        except ValueError:
            return False
    return type_ in _TEXTS


def _rows(
    conn: connection, table: Table, layout: Layout, id_: str | None, receipt: Receipt | None
) -> list[EventRow]:
    by_id = id_ is not None and layout.has_key and _has_value(layout.columns[_ID], id_)
    if by_id:
        condition, values = "_id = %s", [id_]
        shown = f"_id = {literal(str(id_))}"
    elif receipt is not None and layout.has_receipt:
        condition = "_topic = %s AND _partition = %s AND _offset = %s"
        values = [receipt.source.topic, receipt.source.partition, receipt.offset]  # type: ignore[list-item]
        shown = (
            f"_topic = {literal(receipt.source.topic)} AND _partition = {receipt.source.partition} "
            f"AND _offset = {receipt.offset}"
        )
    else:
        return []
    columns = sql.SQL(", ").join(
        sql.SQL("{}::text").format(sql.Identifier(name)) if name in layout.columns else sql.SQL("NULL")
        for name in (*_RECEIPT, _ID, "_event_name", "_received_at")
    )
    statement = sql.SQL("SELECT {} FROM {} WHERE ").format(columns, sql.Identifier(table.schema, table.name))
    with conn.cursor() as cursor:
        cursor.execute(statement + sql.SQL(condition) + sql.SQL(" LIMIT 10"), values)
        return [_event_row(table, row, f"{_select(table)} WHERE {shown}") for row in cursor.fetchall()]


def _event_row(table: Table, row: tuple[Any, ...], shown: str) -> EventRow:
    topic, partition, offset, id_, event_name, received_at = row
    has_receipt = None not in (topic, partition, offset)
    receipt = Receipt(Source(topic, int(partition)), int(offset)) if has_receipt else None
    return EventRow(table, receipt, id_, event_name, received_at and as_time(received_at), shown)


def _select(table: Table) -> str:
    return f"SELECT * FROM {identifier(table.schema)}.{identifier(table.name)}"  # noqa: S608 - quoted


def _read_changes(conn: connection, table: Table, receipt: Receipt, answers: TableAnswers) -> None:
    """Read a landed change, the commit of its transaction, and how far its table is merged."""
    partition, offset = receipt.source.partition, receipt.offset
    shown = f"{_select(table)} WHERE _offset = {offset} AND _partition = {partition}"
    with conn.cursor() as cursor:
        cursor.execute(
            sql.SQL(_CHANGES).format(table=sql.Identifier(table.schema, table.name)), (offset, partition)
        )
        changes = cursor.fetchall()
    source = table.name.split("__")[0]
    transactions = Table(table.database, table.schema, change_table.transactions_of(source))
    answers.changes[table] = [
        Change(_number(lsn), op, _commit(conn, transactions, xid, id_), shown)
        for lsn, op, xid, id_ in changes
    ]
    if _exists(conn, "onramp", "table_settings"):
        with conn.cursor() as cursor:
            cursor.execute(_MERGED, (table.name,))
            answers.merges[table] = [Merge(*row) for row in cursor.fetchall()]


def _commit(conn: connection, transactions: Table, xid: int | None, id_: str | None) -> int | None:
    """Return the LSN of a transaction's commit, by its END record."""
    if id_ is not None:  # it is a record of the transaction itself
        return _number(id_.partition(":")[2] or None)
    if xid is None or not _exists(conn, transactions.schema, transactions.name):
        return None
    statement = sql.SQL(_COMMIT).format(table=sql.Identifier(transactions.schema, transactions.name))
    with conn.cursor() as cursor:
        cursor.execute(statement, (str(xid),))
        row = cursor.fetchone()
    return _number(row[0]) if row else None


def _exists(conn: connection, schema: str, name: str) -> bool:
    return has_table(conn, f"{identifier(schema)}.{identifier(name)}")


def _number(given: Any) -> int | None:
    return None if given is None else int(given)
