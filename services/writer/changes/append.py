"""Appends changes to the landing tables of sources; the first change of a source's table creates its table.

These tables have no key: the ledger lands each record once.  The merger reads them by offset.
"""

from typing import Final

import pyarrow as pa
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.model.targets import Target
from services.writer.persist import landing_tables
from services.writer.persist.copy import copy_into
from services.writer.persist.copy_new_rows import copy_first
from services.writer.persist.insert import insert
from services.writer.persist.insert_spec import Field, InsertSpec
from services.writer.persist.row_results import PersistResult, all_parked, assemble
from services.writer.postgres.answer_cache import AnswerCache, StaleAnswerError
from services.writer.postgres.database import Database
from shared import change_table
from shared.errors import UserError
from shared.landing_columns import PAYLOAD
from shared.postgres.connect import has_table
from shared.postgres.names import MAX_NAME_BYTES

_FIELDS: Final = (
    Field("_partition", ("pg_catalog", "int4"), "integer"),
    Field("_offset", ("pg_catalog", "int8"), "bigint"),
    Field(change_table.CHANGE, ("pg_catalog", "jsonb"), "jsonb"),
)
_JSONB: Final = frozenset({change_table.CHANGE})
#: A change is read only while it is new, so fast writes matter more than compression.
_CREATE: Final = """
    CREATE SCHEMA IF NOT EXISTS {schema};
    CREATE TABLE IF NOT EXISTS {table} ({columns});
    CREATE INDEX IF NOT EXISTS {index} ON {table} (_offset)
"""
#: By address and table name: the tables that exist.
_known: Final[AnswerCache[tuple[str, str], bool]] = AnswerCache()


def append(conn: connection, database: Database, target: Target, rows: pa.Table) -> PersistResult:
    """Append `rows` (columns as `landing_tables.COLUMNS`); raises as `persist` does."""
    try:
        _ensure_table(conn, database, target)
    except UserError as e:  # no permission to create it, which holds for every row
        return all_parked(rows, e)
    spec = InsertSpec(target, _FIELDS)
    changes = rows.select(["_partition", "_offset", PAYLOAD]).rename_columns([f.name for f in _FIELDS])

    def confirm() -> None:
        _known.forget((database.dsn, target.table))
        if _ensure_table(conn, database, target):
            raise StaleAnswerError

    try:
        landed = copy_first(
            conn,
            database,
            spec,
            changes,
            copy=lambda part: copy_into(conn, spec.table, part, jsonb=_JSONB),
            insert=lambda part: insert(conn, database, spec, _as_text(part), confirm),
        )
    except StaleAnswerError:  # the table had been dropped
        return append(conn, database, target, rows)
    return assemble(rows, landed.landed, landed.errors)


def notify(conn: connection) -> None:
    """Notify the merger of new changes when this transaction commits."""
    with conn.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", (change_table.CHANNEL,))


def _as_text(rows: pa.Table) -> list[pa.Array]:
    return [column.combine_chunks().cast(pa.string()) for column in rows.columns]


def _ensure_table(conn: connection, database: Database, target: Target) -> bool:
    """Create the table unless it exists; return whether it was created."""
    if _known.get((database.dsn, target.table)):
        return False
    table = sql.Identifier(target.schema, target.table)
    exists = has_table(conn, table.as_string(conn))
    if not exists:
        landing_tables.change(database, _creation(target))
    _known.put((database.dsn, target.table), True)
    return not exists


def _creation(target: Target) -> sql.Composed:
    columns = sql.SQL(", ").join(sql.SQL(c.definition) for c in change_table.COLUMNS)
    index = f"{target.table.encode()[: MAX_NAME_BYTES - len('_at')].decode(errors='ignore')}_at"
    return sql.SQL(_CREATE).format(
        schema=sql.Identifier(target.schema),
        table=sql.Identifier(target.schema, target.table),
        index=sql.Identifier(index),
        columns=columns,
    )
