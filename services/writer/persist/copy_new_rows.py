"""Lands new rows by COPY and only the others by INSERT.

COPY writes all rows or none, and one repeat of an event makes it fail.  So after a unique violation the
table is queried for existing keys, COPY writes the rows with new keys, and the few remaining rows are
inserted, which gives a result for each.  The query only selects the rows worth an attempt: a row that
another session adds or deletes in the meantime still gets its result from its INSERT.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import psycopg2
import pyarrow as pa
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.model.recent_keys import RecentKeys
from services.writer.persist.copy import all_or_none, savepoint
from services.writer.persist.insert import fill_stage
from services.writer.persist.insert_spec import InsertResult, InsertSpec
from services.writer.postgres.database import Database
from services.writer.postgres.sqlstates import UNIQUE_VIOLATION, Verdict, verdict
from shared.errors import ID_REUSE

#: By (address, table): this process recently met repeats, or rows that the table rejects.
_repeats: Final = RecentKeys()
_rejections: Final = RecentKeys()
#: OFFSET 0 prevents a join that reads the whole table: each key is looked up separately.
_EXISTING: Final = "SELECT s.n FROM {stage} s WHERE EXISTS (SELECT FROM {table} new WHERE {same} OFFSET 0)"

_Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


def copy_first(
    conn: connection,
    database: Database,
    spec: InsertSpec,
    rows: pa.Table,
    *,
    copy: Callable[[pa.Table], int],
    insert: Callable[[pa.Table], InsertResult],
) -> InsertResult:
    """Land `rows` (columns named as the fields of `spec`) by `copy`, and the remaining rows by `insert`.

    `copy` returns the number of rows written.  Costs one COPY if all rows are new.  Raise psycopg2's
    error if the rows are not at fault.
    """
    table = (database.dsn, spec.target)
    out = InsertResult(np.zeros(rows.num_rows, dtype=bool))
    if not (spec.has_rules or _rejections.contains(table)):  # COPY bypasses a table's rewrite rules
        out.landed |= _copied(conn, table, spec, rows, copy)
    left = np.flatnonzero(~out.landed)
    if left.size:
        inserted = insert(rows if left.size == rows.num_rows else rows.filter(pa.array(~out.landed)))
        out.landed[left[inserted.landed]] = True
        out.errors |= {int(left[i]): error for i, error in inserted.errors.items()}
        # COPY treats an id with another body like a repeat, which is no reason to avoid COPY next time.
        _rejections.update(table, occurred=any(e.fault is not ID_REUSE for e in inserted.errors.values()))
    return out


def is_suspect(table: Hashable) -> bool:
    """Return whether this process recently met repeats or bad rows in `table`, (address, target)."""
    return _repeats.contains(table) or _rejections.contains(table)


def _copied(
    conn: connection, table: Hashable, spec: InsertSpec, rows: pa.Table, copy: Callable[[pa.Table], int]
) -> _Mask:
    """Return which of `rows` COPY wrote; at most two attempts."""
    has_queried = _repeats.contains(table)
    new = _new(conn, spec, rows) if has_queried else np.ones(rows.num_rows, dtype=bool)
    sqlstate = _copy(conn, rows, new, copy)
    if sqlstate == UNIQUE_VIOLATION and not has_queried:
        new = _new(conn, spec, rows)
        sqlstate = sqlstate if new.all() else _copy(conn, rows, new, copy)
    _repeats.update(table, occurred=not new.all())
    return new if sqlstate is None else np.zeros(rows.num_rows, dtype=bool)


def _copy(conn: connection, rows: pa.Table, new: _Mask, copy: Callable[[pa.Table], int]) -> str | None:
    """COPY the rows that are `new`; return the result of `all_or_none`."""
    if not new.any():
        return None
    if not new.all():
        rows = rows.filter(pa.array(new))
    return all_or_none(conn, rows.num_rows, lambda: copy(rows))


def _new(conn: connection, spec: InsertSpec, rows: pa.Table) -> _Mask:
    """Return which of `rows` are probably new: the first of their key, which the table does not have."""
    keys = replace(spec, fields=tuple(f for f in spec.fields if f.name in spec.key))
    # The pinned search_path does not resolve the `=` of a type in another schema, and may resolve to an
    # operator that is not the index's.
    if not spec.key or any(schema != "pg_catalog" for schema, _ in (f.type for f in keys.fields)):
        return np.ones(rows.num_rows, dtype=bool)
    new = _first_of_their_key(rows.select(list(spec.key)))
    try:
        with savepoint(conn):
            new[_existing(conn, keys, rows)] = False
    except psycopg2.Error as e:
        if verdict(e.pgcode) is not Verdict.PARK:
            raise
    return new


def _first_of_their_key(keys: pa.Table) -> _Mask:
    """Return the first row of each key, with keys compared as text: the table may treat more as equal."""
    indices = pa.array(np.arange(keys.num_rows))
    firsts = keys.append_column("\0row", indices).group_by(keys.column_names).aggregate([("\0row", "min")])
    out = np.zeros(keys.num_rows, dtype=bool)
    out[firsts.column("\0row_min").to_numpy()] = True
    return out


def _existing(conn: connection, keys: InsertSpec, rows: pa.Table) -> list[int]:
    """Return the indices of the rows whose keys exist in the table; `keys` has the key's fields only."""
    fill_stage(conn, [rows.column(f.name) for f in keys.fields])
    statement = sql.SQL(_EXISTING).format(stage=keys.stage, table=keys.table, same=keys.same_key())
    with conn.cursor() as cursor:
        cursor.execute(statement)
        return [row_index for (row_index,) in cursor.fetchall()]
