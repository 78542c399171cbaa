"""PERSIST: the rows of one table, each with exactly one outcome.

A landing table is Onramp's own: a binary COPY straight into it, and the way round by
`insertion` when a key is there already or a row is refused.  A typed table is its owner's:
see `typed`.  Deferred constraints are checked at once from here to the transaction's end:
at COMMIT they would refuse the whole batch.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer import landing, typed
from services.writer.copy_rows import all_or_none, copy_into
from services.writer.insertion import Field, Insertion, Verdicts, insert
from services.writer.optimism import Optimism
from services.writer.persisted import Parked, Persisted, assemble, refuse
from services.writer.postgres import Database
from services.writer.refusals import refusal
from services.writer.targets import Target
from shared.errors import ID_REUSE, UserError

__all__ = ["Parked", "Persisted", "check_at_once", "persist", "refuse"]

_optimism: Final = Optimism()
_JSONB: Final = frozenset({"payload"})
_FIELDS: Final = tuple(
    Field(name, ("pg_catalog", kind), kind)
    for name, kind in zip(
        landing.COLUMNS.names,
        ("text", "text", "timestamptz", "text", "timestamptz", "text", "int4", "int8", "jsonb"),
        strict=True,
    )
)
#: A repeat of an event has the same body; where and when it arrived may differ.
_OTHER_BODY: Final = """
    SELECT s.n FROM {stage} s JOIN {table} t ON t._id = s.c0
    WHERE s.n = ANY ({duplicates}) AND (t._event_name, t._timestamp, t._version, t.payload)
        IS DISTINCT FROM (s.c1, s.c2::timestamptz, s.c3, s.c8::jsonb)
"""


def check_at_once(conn: connection) -> None:
    """Before a transaction's first `persist`: deferred constraints say at once what they say."""
    with conn.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def persist(conn: connection, database: Database, target: Target, rows: pa.Table) -> Persisted:
    """Land `rows` in `target`.

    Raises `InfrastructureError` (through psycopg2's error) when the fault is not the rows'.
    """
    if target.typed:
        return typed.persist(conn, database, target, rows)
    try:
        landing.ensure_table(database, target.table)
    except UserError as e:  # no permission to make it: every row would meet the same
        return refuse(rows, e)
    return _land(conn, database, target, rows)


def _land(conn: connection, database: Database, target: Target, rows: pa.Table) -> Persisted:
    place = (database.dsn, target)
    if _optimism.for_(place) and _copy(conn, target, rows):
        return assemble(rows, np.ones(rows.num_rows, dtype=bool), {})
    found = _insert(conn, database, target, rows)
    _optimism.learn(place, clashed=not found.landed.all())
    return assemble(rows, found.landed, found.errors)


def _copy(conn: connection, target: Target, rows: pa.Table) -> bool:
    """Whether the table took all of `rows`; if not, it has none of them."""
    if pc.count_distinct(rows.column(landing.KEY)).as_py() < rows.num_rows:
        return False
    table = sql.Identifier(target.schema, target.table)
    return all_or_none(conn, rows.num_rows, lambda: copy_into(conn, table, rows, jsonb=_JSONB))


def _insert(conn: connection, database: Database, target: Target, rows: pa.Table) -> Verdicts:
    """Land `rows` through a stage; a row under another event's id is refused."""
    what = Insertion(target, _FIELDS, (landing.KEY,))
    columns = [_as_text(rows.column(f.name)) for f in _FIELDS]

    def confirm() -> None:
        landing.confirm_table(conn, database, target.table)

    found = insert(conn, database, what, columns, confirm)
    duplicates = [n for n in np.flatnonzero(~found.landed).tolist() if n not in found.errors]
    if duplicates:
        statement = sql.SQL(_OTHER_BODY).format(
            stage=what.stage, table=what.table, duplicates=sql.Literal(duplicates)
        )
        error = refusal(
            database, target, why="another body is there under this id", column="_id", fault=ID_REUSE
        )
        with conn.cursor() as cursor:
            cursor.execute(statement)
            found.errors |= {n: error for (n,) in cursor.fetchall()}
    return found


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().cast(pa.string())
