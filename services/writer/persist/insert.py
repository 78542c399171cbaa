"""INSERTs rows of text through a stage into a table; each row has exactly one outcome.

COPY fills the stage (`stage`).  One statement casts and inserts its rows with
``ON CONFLICT (key) DO NOTHING``, on the event's own key only, so that a conflict on another
unique index is an error and never a silent loss.  If the statement inserts fewer rows than
it was given, each missing row must exist under its key; otherwise a trigger or a rule has
suppressed the row.  If the statement fails, `isolate_rows` finds the rows at fault.
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
from services.writer.persist.copy import MissingRowsError, require_all, savepoint
from services.writer.persist.insert_spec import InsertResult, InsertSpec
from services.writer.persist.row_results import row_error
from services.writer.postgres.database import Database
from services.writer.postgres.sqlstates import Verdict, verdict

#: The indices of the new rows; null for a row to which a trigger gave another key.
_INSERT_NEW: Final = """
    WITH new AS ({insert} RETURNING {key})
    SELECT min(s.n) FROM new LEFT JOIN {stage} s ON {same} GROUP BY {new_key}
"""
_IS_MISSING: Final = """
    SELECT EXISTS (SELECT FROM {stage} s WHERE NOT EXISTS (SELECT FROM {table} new WHERE {same}))
"""
#: SQLSTATE classes of staging errors that a row's values can cause: by their format or size.
_VALUE_CLASSES: Final = frozenset({"22", "54"})


def insert(
    conn: connection,
    database: Database,
    spec: InsertSpec,
    columns: Sequence[pa.Array],
    before_isolating: Callable[[], None],
) -> InsertResult:
    """Insert `columns` (text, one for each field) and return the outcome of each row.

    `before_isolating` is called if the table rejected rows, and may raise, because the table's description
    may be stale.  Costs a COPY and one statement if all rows are valid.  Raise psycopg2's error if the rows
    are not at fault.
    """
    rows = _with_row_indices(columns)
    out = InsertResult(np.zeros(rows.num_rows, dtype=bool))
    rows = _without_nul(database, spec, rows, out)
    rows = _without_unstorable(conn, database, spec, rows, out)
    if not rows.num_rows:
        return out
    try:
        with savepoint(conn):
            stage.fill(conn, rows)
            _insert_all(conn, spec, rows.num_rows)
    except MissingRowsError:
        _find_missing(conn, database, spec, rows, out)
    except psycopg2.Error as e:
        if verdict(e.pgcode) is not Verdict.PARK:
            raise
        before_isolating()
        _isolate(conn, database, spec, rows, out)
    else:
        out.landed[rows.column(stage.ROW_INDEX).to_numpy()] = True
    return out


def fill_stage(conn: connection, columns: Sequence[pa.Array]) -> None:
    """Fill the stage of this width with `columns` (text); `n` is the row index."""
    stage.fill(conn, _with_row_indices(columns))


def _with_row_indices(columns: Sequence[pa.Array]) -> pa.Table:
    names = [stage.ROW_INDEX, *(f"c{i}" for i in range(len(columns)))]
    return pa.table([pa.array(np.arange(len(columns[0]), dtype=np.int32)), *columns], names)


def _without_nul(database: Database, spec: InsertSpec, rows: pa.Table, out: InsertResult) -> pa.Table:
    """Return `rows` without those that contain NUL, for which COPY would reject all rows."""
    for i, f in enumerate(spec.fields):
        column = rows.column(f"c{i}")
        has_nul = pc.fill_null(pc.match_substring(column, "\0"), False)
        if pc.any(has_nul).as_py():
            reason = "text cannot contain a NUL character"
            error = row_error(database, spec.target, "22021", reason, column=f.name)
            for row_index in rows.column(stage.ROW_INDEX).filter(has_nul).to_pylist():
                out.errors[row_index] = error
            rows = rows.filter(pc.invert(has_nul))
    return rows


def _without_unstorable(
    conn: connection, database: Database, spec: InsertSpec, rows: pa.Table, out: InsertResult
) -> pa.Table:
    """Return `rows` without those that contain a character missing from the database's encoding."""
    unstorable = encodings.unstorable(conn, rows.columns[1:], rows.column(stage.ROW_INDEX))
    for row_index, field_index in unstorable.items():
        reason = "the text contains a character that the database's encoding does not have"
        column = spec.fields[field_index].name
        out.errors[row_index] = row_error(database, spec.target, "22P05", reason, column=column)
    if not unstorable:
        return rows
    return rows.filter(pc.invert(pc.is_in(rows.column(stage.ROW_INDEX), pa.array(unstorable, pa.int32()))))


def _insert_all(conn: connection, spec: InsertSpec, count: int) -> None:
    with conn.cursor() as cursor:
        cursor.execute(spec.statement())
        require_all(complete=cursor.rowcount == count)


def _find_missing(
    conn: connection, database: Database, spec: InsertSpec, rows: pa.Table, out: InsertResult
) -> None:
    """Insert again, and find for each row whether it is new, a duplicate, or suppressed by a trigger."""
    if spec.key and not spec.has_rules:
        try:
            with savepoint(conn):
                stage.fill(conn, rows)
                new = _insert_new(conn, spec)
        except MissingRowsError:
            pass  # suppressed, or landed under another key
        except psycopg2.Error as e:
            if verdict(e.pgcode) is not Verdict.PARK:
                raise
        else:
            out.landed[new] = True
            return
    _isolate(conn, database, spec, rows, out)


def _insert_new(conn: connection, spec: InsertSpec) -> list[int]:
    """Insert the stage; return the indices of the new rows; all other rows exist under their keys.

    Raise `MissingRowsError` if a row does not exist, or if a trigger gave a row another key.
    """
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
        row_indices = [row_index for (row_index,) in cursor.fetchall()]
        cursor.execute(sql.SQL(_IS_MISSING).format(stage=spec.stage, table=spec.table, same=same))
        require_all(complete=None not in row_indices and cursor.fetchone() == (False,))
    return row_indices


def _isolate(
    conn: connection, database: Database, spec: InsertSpec, rows: pa.Table, out: InsertResult
) -> None:
    """Insert in batches that exclude only bad rows; bisect rows that cannot be staged."""
    try:
        with savepoint(conn):
            stage.fill(conn, rows)
            isolated = isolate_rows.isolate_bad_rows(conn, database, spec)
    except psycopg2.Error as e:
        if verdict(e.pgcode) is not Verdict.PARK or str(e.pgcode)[:2] not in _VALUE_CLASSES:
            raise
        half = rows.num_rows // 2
        if not half:
            row_index = rows.column(stage.ROW_INDEX)[0].as_py()
            out.errors[row_index] = row_error(database, spec.target, e.pgcode)
            return
        _isolate(conn, database, spec, rows.slice(0, half), out)
        _isolate(conn, database, spec, rows.slice(half), out)
    else:
        out.landed[isolated.landed] = True
        out.errors |= isolated.errors
