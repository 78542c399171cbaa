"""INSERT: rows of text through a stage into a table, each with exactly one outcome.

The stage (`stage`) is filled by COPY; one statement casts and inserts it with
``ON CONFLICT (key) DO NOTHING``: on the event's own key only, so that a clash on another
unique index is an error and never a silent loss.  When the statement inserts fewer rows than
it was given, each missing row must be found under its key, else a trigger or a rule has
swallowed it; when it fails, `isolate` finds the rows at fault.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.persist import encodings, isolate_rows, stage
from services.writer.persist.copy import savepoint
from services.writer.persist.insert_spec import InsertResult, InsertSpec
from services.writer.persist.row_errors import refusal
from services.writer.postgres.database import Database
from services.writer.postgres.sqlstates import Verdict, verdict

#: The places of the rows that are new; null for one that a trigger gave another key.
_INSERT_NEW: Final = """
    WITH new AS ({insert} RETURNING {key})
    SELECT min(s.n) FROM new LEFT JOIN {stage} s ON {same} GROUP BY {new_key}
"""
_IS_MISSING: Final = """
    SELECT EXISTS (SELECT FROM {stage} s WHERE NOT EXISTS (SELECT FROM {table} new WHERE {same}))
"""


#: What a row's values alone can do to the stage: a form, a size.
_OF_VALUES: Final = frozenset({"22", "54"})


def insert(
    conn: connection,
    database: Database,
    spec: InsertSpec,
    columns: Sequence[pa.Array],
    before_isolating: Callable[[], None],
) -> InsertResult:
    """Insert `columns` (text, one for each field) and say what became of each row.

    `before_isolating` is called when rows were refused, and may raise: perhaps the table is
    no longer what it was.  Raises psycopg2's error when the fault is not the rows'.
    """
    rows = _with_places(spec, columns)
    out = InsertResult(np.zeros(rows.num_rows, dtype=bool))
    rows = _without_nul(database, spec, rows, out)
    rows = _without_unheld(conn, database, spec, rows, out)
    if not rows.num_rows:
        return out
    try:
        with savepoint(conn):
            stage.fill(conn, rows)
            _insert_all(conn, spec, rows.num_rows)
    except _ShortError:
        _tell_apart(conn, database, spec, rows, out)
    except psycopg2.Error as e:
        if verdict(e.pgcode) is not Verdict.PARK:
            raise
        before_isolating()
        _isolate(conn, database, spec, rows, out)
    else:
        out.landed[rows.column(stage.PLACE).to_numpy()] = True
    return out


class _ShortError(Exception):
    """The statement inserted fewer rows than it was given."""


def fill_stage(conn: connection, spec: InsertSpec, columns: Sequence[pa.Array]) -> None:
    """Fill the stage of `spec` with `columns` (text, one for each field): n is their place."""
    stage.fill(conn, _with_places(spec, columns))


def _with_places(spec: InsertSpec, columns: Sequence[pa.Array]) -> pa.Table:
    names = [stage.PLACE, *(f"c{i}" for i in range(len(spec.fields)))]
    return pa.table([pa.array(np.arange(len(columns[0]), dtype=np.int32)), *columns], names)


def _without_nul(database: Database, spec: InsertSpec, rows: pa.Table, out: InsertResult) -> pa.Table:
    """`rows` without those that hold the one character that text cannot: COPY would refuse them all."""
    for i, f in enumerate(spec.fields):
        column = rows.column(f"c{i}")
        found = pc.fill_null(pc.match_substring(column, "\0"), False)
        if pc.any(found).as_py():
            error = refusal(database, spec.target, "22021", "text holds no NUL character", column=f.name)
            for place in rows.column(stage.PLACE).filter(found).to_pylist():
                out.errors[place] = error
            rows = rows.filter(pc.invert(found))
    return rows


def _without_unheld(
    conn: connection, database: Database, spec: InsertSpec, rows: pa.Table, out: InsertResult
) -> pa.Table:
    """`rows` without those that hold a character which the database's encoding does not have."""
    found = encodings.unheld(conn, rows.columns[1:], rows.column(stage.PLACE))
    for place, at in found.items():
        why = "the database's encoding does not have one of its characters"
        out.errors[place] = refusal(database, spec.target, "22P05", why, column=spec.fields[at].name)
    if not found:
        return rows
    return rows.filter(pc.invert(pc.is_in(rows.column(stage.PLACE), pa.array(found, pa.int32()))))


def _insert_all(conn: connection, spec: InsertSpec, count: int) -> None:
    with conn.cursor() as cursor:
        cursor.execute(spec.statement())
        if cursor.rowcount != count:
            raise _ShortError


def _tell_apart(
    conn: connection, database: Database, spec: InsertSpec, rows: pa.Table, out: InsertResult
) -> None:
    """Insert again, and find for each row whether it is new, a duplicate, or was swallowed."""
    if spec.key and not spec.ruled:
        try:
            with savepoint(conn):
                stage.fill(conn, rows)
                new = _insert_new(conn, spec)
        except _ShortError:
            pass  # swallowed, or the key that landed is not the key that was given
        except psycopg2.Error as e:
            if verdict(e.pgcode) is not Verdict.PARK:
                raise
        else:
            out.landed[new] = True
            return
    _isolate(conn, database, spec, rows, out)


def _insert_new(conn: connection, spec: InsertSpec) -> list[int]:
    """The places of the rows that were inserted, if the others are there already under their keys."""
    key = [sql.Identifier(k) for k in spec.key]
    same = spec.same_key()
    insert = sql.SQL(_INSERT_NEW).format(
        insert=spec.statement(),
        key=sql.SQL(", ").join(key),
        new_key=sql.SQL(", ").join(sql.SQL("new.{}").format(k) for k in key),
        stage=spec.stage,
        same=same,
    )
    with conn.cursor() as cursor:
        cursor.execute(insert)
        places = [place for (place,) in cursor.fetchall()]
        cursor.execute(sql.SQL(_IS_MISSING).format(stage=spec.stage, table=spec.table, same=same))
        if None in places or cursor.fetchone() == (True,):
            raise _ShortError
    return places


def _isolate(
    conn: connection, database: Database, spec: InsertSpec, rows: pa.Table, out: InsertResult
) -> None:
    """Insert piece by piece, so that only the rows at fault stay out; what cannot be staged is halved."""
    try:
        with savepoint(conn):
            stage.fill(conn, rows)
            found = isolate_rows.one_by_one(conn, database, spec)
    except psycopg2.Error as e:
        if str(e.pgcode)[:2] not in _OF_VALUES:
            raise
        half = rows.num_rows // 2
        if not half:
            out.errors[rows.column(stage.PLACE)[0].as_py()] = refusal(database, spec.target, e.pgcode)
            return
        _isolate(conn, database, spec, rows.slice(0, half), out)
        _isolate(conn, database, spec, rows.slice(half), out)
    else:
        out.landed[found.landed] = True
        out.errors |= found.errors
