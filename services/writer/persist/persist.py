"""PERSIST: the rows of one table, each with exactly one outcome.

A landing table is Onramp's own: a binary COPY straight into it, and the way round by
`insertion` for what is there already or is refused.  A typed table is its owner's:
see `typed`.  Deferred constraints are checked at once from here to the transaction's end:
at COMMIT they would refuse the whole batch.
"""

from typing import Final

import numpy as np
import psycopg2
import pyarrow as pa
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.columns import no_unique_key
from services.writer.model.halving import Failed, Odds, halve
from services.writer.model.targets import Target
from services.writer.persist import landing, typed_table
from services.writer.persist.copy import copy_into, savepoint
from services.writer.persist.copy_new_rows import copy_first
from services.writer.persist.insert import insert
from services.writer.persist.insert_spec import Field, InsertResult, InsertSpec
from services.writer.persist.row_errors import refusal
from services.writer.persist.row_results import Parked, PersistResult, all_parked, assemble, concatenated
from services.writer.postgres.database import Database
from shared import failpoints, landing_table
from shared.errors import ID_REUSE, INTERNAL_PERSIST, OnrampError, UserError
from shared.landing_table import Part

__all__ = ["Parked", "PersistResult", "all_parked", "make_constraints_immediate", "persist", "persist_apart"]

#: What passed and what failed in this process.
_odds = Odds()
#: Types by their names in the catalogue, which a cast is written with.
_CAST_TO: Final = {"integer": "int4", "bigint": "int8"}
_JSONB: Final = frozenset(c.name for c in landing_table.COLUMNS if c.type == "jsonb")
_FIELDS: Final = tuple(
    Field(c.name, ("pg_catalog", _CAST_TO.get(c.type, c.type)), c.type) for c in landing_table.COLUMNS
)
_CONTENT: Final = [(at, c) for at, c in enumerate(landing_table.COLUMNS) if c.part is Part.CONTENT]
#: A repeat of an event has the same body; where and when it arrived may differ.
_OTHER_BODY: Final = f"""
    SELECT s.n FROM {{stage}} s JOIN {{table}} t ON t.{landing.KEY} = s.c0
    WHERE s.n = ANY ({{duplicates}}) AND ({", ".join(f"t.{c.name}" for _, c in _CONTENT)})
        IS DISTINCT FROM ({", ".join(f"s.c{at}::{c.type}" for at, c in _CONTENT)})
"""  # noqa: S608 - the definition's own names


def make_constraints_immediate(conn: connection) -> None:
    """Before a transaction's first `persist`: deferred constraints say at once what they say."""
    with conn.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def persist(conn: connection, database: Database, target: Target, rows: pa.Table) -> PersistResult:
    """Land `rows` in `target`.

    Raises `InfrastructureError` (through psycopg2's error) when the fault is not the rows'.
    """
    done = _persist(conn, database, target, rows)
    _odds.passed({target: rows.num_rows})
    return done


def persist_apart(conn: connection, database: Database, target: Target, rows: pa.Table) -> PersistResult:
    """`persist`, with each row parked that makes it raise for a reason that nobody foresaw.

    Raises as `persist` does, and such an exception itself when it is not the rows' fault.
    """
    pieces: dict[int, PersistResult] = {}

    def work(start: int, end: int) -> None:
        with savepoint(conn):
            pieces[start] = _persist(conn, database, target, rows.slice(start, end - start))

    failed = halve(rows.num_rows, work, (psycopg2.Error, OnrampError, MemoryError))
    places = [Failed(target, _place(rows, at)) for at in failed]
    if failed and not _odds.are_at_fault(places, {target: rows.num_rows - len(failed)}):
        raise next(iter(failed.values()))
    for at, e in failed.items():
        error = UserError(INTERNAL_PERSIST, f"{type(e).__name__}, where others passed")
        pieces[at] = all_parked(rows.slice(at, 1), error)
    return concatenated(pieces)


def _place(rows: pa.Table, at: int) -> tuple[str, ...]:
    return tuple(str(rows.column(name)[at]) for name in ("_topic", "_partition", "_offset"))


def _persist(conn: connection, database: Database, target: Target, rows: pa.Table) -> PersistResult:
    way = typed_table.persist if target.typed else _land
    done = way(conn, database, target, rows)
    failpoints.meet("writer.persist", [rows.column("_id")])  # who has waited for a lock meets it too
    return done


def _land(conn: connection, database: Database, target: Target, rows: pa.Table) -> PersistResult:
    try:
        landing.ensure_table(conn, database, target.table)
    except UserError as e:  # no permission to make it: every row would meet the same
        return all_parked(rows, e)
    what = _insertion(database, target)
    found = copy_first(
        conn,
        database,
        what,
        rows,
        copy=lambda some: copy_into(conn, what.table, some, jsonb=_JSONB),
        insert=lambda some: _insert(conn, database, what, some),
    )
    out = assemble(rows, found.landed, found.errors)
    if not landing.is_keyed(database, target.table):
        no_unique_key.warn_once(database, target)
        out.no_unique_key = True
    return out


def _insertion(database: Database, target: Target) -> InsertSpec:
    key = (landing.KEY,) if landing.is_keyed(database, target.table) else ()
    return InsertSpec(target, _FIELDS, key)


class _StaleError(Exception):
    """The owner of the table has dropped its key, or put it back."""


def _insert(conn: connection, database: Database, what: InsertSpec, rows: pa.Table) -> InsertResult:
    """Land `rows` through a stage; a row under another event's id is refused."""
    columns = [_as_text(rows.column(f.name)) for f in _FIELDS]

    def confirm() -> None:
        landing.confirm_table(conn, database, what.target.table)
        if _insertion(database, what.target) != what:
            raise _StaleError

    try:
        found = insert(conn, database, what, columns, confirm)
    except _StaleError:
        return _insert(conn, database, _insertion(database, what.target), rows)
    duplicates = [n for n in np.flatnonzero(~found.landed).tolist() if n not in found.errors]
    if duplicates:
        statement = sql.SQL(_OTHER_BODY).format(
            stage=what.stage, table=what.table, duplicates=sql.Literal(duplicates)
        )
        error = refusal(
            database,
            what.target,
            why="another body is there under this id",
            column=landing.KEY,
            fault=ID_REUSE,
        )
        with conn.cursor() as cursor:
            cursor.execute(statement)
            found.errors |= {n: error for (n,) in cursor.fetchall()}
    return found


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().cast(pa.string())
