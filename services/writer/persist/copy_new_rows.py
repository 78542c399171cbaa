"""COPY first: rows that are new go straight into their table, and only the others by INSERT.

COPY takes all rows or none, and one repeat of an event is enough for none.  So after a clash
the table is asked which keys it has, COPY takes the rows that it does not have, and those
few that are left are inserted, which tells what each of them is.  The answer only says what
is worth an attempt: a row that somebody adds or deletes meanwhile is judged as any other.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import psycopg2
import pyarrow as pa
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.persist.copy import all_or_none, savepoint
from services.writer.persist.insert import fill_stage
from services.writer.persist.insert_spec import InsertResult, InsertSpec
from services.writer.persist.recent_outcomes import RecentOutcomes
from services.writer.postgres.database import Database
from services.writer.postgres.sqlstates import UNIQUE_VIOLATION, Verdict, verdict
from shared.errors import ID_REUSE

_repeats: Final = RecentOutcomes()
_refusals: Final = RecentOutcomes()
#: OFFSET keeps the planner from joining, which reads the whole table: each key is looked up by itself.
_THERE: Final = "SELECT s.n FROM {stage} s WHERE EXISTS (SELECT FROM {table} new WHERE {same} OFFSET 0)"

_Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


def copy_first(
    conn: connection,
    database: Database,
    what: InsertSpec,
    rows: pa.Table,
    *,
    copy: Callable[[pa.Table], int],
    insert: Callable[[pa.Table], InsertResult],
) -> InsertResult:
    """Land `rows` (columns by the names of the fields of `what`): by `copy`, what is left by `insert`.

    `copy` returns how many rows the table took.  Raises psycopg2's error when the fault is
    not the rows'.
    """
    place = (database.dsn, what.target)
    out = InsertResult(np.zeros(rows.num_rows, dtype=bool))
    if not (what.ruled or _refusals.are_likely(place)):  # COPY does not ask a table's rules
        out.landed |= _copied(conn, place, what, rows, copy)
    left = np.flatnonzero(~out.landed)
    if left.size:
        found = insert(rows if left.size == rows.num_rows else rows.filter(pa.array(~out.landed)))
        out.landed[left[found.landed]] = True
        out.errors |= {int(left[i]): error for i, error in found.errors.items()}
        # An id with another body is a repeat to COPY, and goes the other way by itself.
        _refusals.learn(place, met=any(e.fault is not ID_REUSE for e in found.errors.values()))
    return out


def _copied(
    conn: connection, place: Hashable, what: InsertSpec, rows: pa.Table, copy: Callable[[pa.Table], int]
) -> _Mask:
    """Which of `rows` COPY took."""
    asked = _repeats.are_likely(place)
    new = _new(conn, what, rows) if asked else np.ones(rows.num_rows, dtype=bool)
    refused = _copy(conn, rows, new, copy)
    if refused == UNIQUE_VIOLATION and not asked:
        new = _new(conn, what, rows)
        refused = refused if new.all() else _copy(conn, rows, new, copy)
    _repeats.learn(place, met=not new.all())
    return new if refused is None else np.zeros(rows.num_rows, dtype=bool)


def _copy(conn: connection, rows: pa.Table, new: _Mask, copy: Callable[[pa.Table], int]) -> str | None:
    """Why the table took none of the rows that are `new`, or None."""
    if not new.any():
        return None
    if not new.all():
        rows = rows.filter(pa.array(new))
    return all_or_none(conn, rows.num_rows, lambda: copy(rows))


def _new(conn: connection, what: InsertSpec, rows: pa.Table) -> _Mask:
    """Which of `rows` are likely to be new: the first of their key, which the table does not have."""
    keys = replace(what, fields=tuple(f for f in what.fields if f.name in what.key))
    # Another schema's type has an `=` that the pinned search_path does not find: what is found
    # instead may not be its index's.
    if not what.key or any(schema != "pg_catalog" for schema, _ in (f.type for f in keys.fields)):
        return np.ones(rows.num_rows, dtype=bool)
    new = _first_of_their_key(rows.select(list(what.key)))
    try:
        with savepoint(conn):
            new[_there(conn, keys, rows)] = False
    except psycopg2.Error as e:
        if verdict(e.pgcode) is not Verdict.PARK:
            raise
    return new


def _first_of_their_key(keys: pa.Table) -> _Mask:
    """By the text of their keys: what the table takes for equal may be more."""
    places = pa.array(np.arange(keys.num_rows))
    firsts = keys.append_column("\0place", places).group_by(keys.column_names).aggregate([("\0place", "min")])
    out = np.zeros(keys.num_rows, dtype=bool)
    out[firsts.column("\0place_min").to_numpy()] = True
    return out


def _there(conn: connection, keys: InsertSpec, rows: pa.Table) -> list[int]:
    """The places of the rows whose keys the table has.  `keys`: with the fields of its key alone."""
    fill_stage(conn, keys, [rows.column(f.name) for f in keys.fields])
    statement = sql.SQL(_THERE).format(stage=keys.stage, table=keys.table, same=keys.same_key())
    with conn.cursor() as cursor:
        cursor.execute(statement)
        return [place for (place,) in cursor.fetchall()]
