"""Distinguishes a repeat of an event from another event under the same key, which is parked as `id_reuse`.

A repeat has the values of the row under its key in every column that it supplies, except the time and place
of arrival, which may differ.  If no row is found under the key, because a trigger changed the key or a policy
hides the row, there is no comparison.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import psycopg2
import pyarrow as pa
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.persist import stage
from services.writer.persist.copy import savepoint
from services.writer.persist.insert import fill_stage
from services.writer.persist.insert_spec import ARRIVAL, Field, InsertResult, InsertSpec
from services.writer.persist.row_results import row_error
from services.writer.postgres.database import Database
from shared.errors import ID_REUSE, UserError

_OTHERS: Final = "SELECT s.n FROM {stage} s JOIN {table} new ON {same} WHERE {differs}"
#: Types whose values have several texts, such as 1.0 and 1.00.  All others are compared as texts: not every
#: type has an `=`, and a collation's `=` may treat two texts as equal.
_BY_VALUE: Final = frozenset({("pg_catalog", "numeric"), ("pg_catalog", "jsonb")})


def park_others(
    conn: connection,
    database: Database,
    spec: InsertSpec,
    columns: Sequence[pa.Array],
    result: InsertResult,
    *,
    before_parking: Callable[[], None],
    omitted: pa.DictionaryArray | None = None,
) -> None:
    """Add an error to `result` for each row that did not land and is not a repeat of the row under its key.

    `columns` are the rows' texts, one column for each field; `omitted`: for each row the fields that it omits
    (`omitted_fields`), which are not compared.  `before_parking` may raise, because the table's
    description may be stale.  Costs a COPY and a statement if there are rows whose key exists, otherwise
    nothing.  Raise psycopg2's error if the rows are not at fault.
    """
    existing = ~result.landed
    existing[list(result.errors)] = False
    row_indices = np.flatnonzero(existing)
    if not (row_indices.size and spec.key):
        return
    existing_rows = [column.take(pa.array(row_indices)) for column in columns]
    if omitted is not None:
        existing_rows.append(omitted.take(pa.array(row_indices)).dictionary_decode())
    if errors := _errors(conn, database, spec, existing_rows, row_indices):
        before_parking()
        result.errors |= errors


def _errors(
    conn: connection,
    database: Database,
    spec: InsertSpec,
    columns: Sequence[pa.Array],
    row_indices: "np.ndarray[tuple[int], np.dtype[np.intp]]",
) -> dict[int, UserError]:
    has_omitted = len(columns) > len(spec.fields)
    differs = [
        _differs(i, f, len(spec.fields) if has_omitted else None)
        for i, f in enumerate(spec.fields)
        if f.name not in ARRIVAL
    ]
    statement = sql.SQL(_OTHERS).format(
        stage=stage.name(len(columns)),
        table=spec.table,
        same=spec.same_key(),
        differs=sql.SQL(" OR ").join(differs),
    )
    try:
        with savepoint(conn), conn.cursor() as cursor:
            fill_stage(conn, columns)
            with _operators_of(cursor, spec):
                cursor.execute(statement)
                others = [int(row_indices[n]) for (n,) in cursor.fetchall()]
    except psycopg2.errors.InsufficientPrivilege as e:
        reason = "a row with this key exists, and the writer may not SELECT all columns to compare the two"
        return dict.fromkeys(
            row_indices.tolist(), row_error(database, spec.target, e.pgcode, reason, constraint=spec.index)
        )
    reason = "a row with this id and another body exists"
    error = row_error(database, spec.target, reason=reason, column=spec.key[0], fault=ID_REUSE)
    return dict.fromkeys(others, error)


@contextmanager
def _operators_of(cursor: psycopg2.extensions.cursor, spec: InsertSpec) -> Iterator[None]:
    """Extend the block's search path to the schemas with the `=` of the key's types, such as citext."""
    own = {f.type[0] for f in spec.fields if f.name in spec.key} - {"pg_catalog"}
    if not own:
        yield
        return
    cursor.execute("SELECT current_setting('search_path')")
    (usual,) = cursor.fetchone() or ("",)
    path = sql.SQL(", ").join(map(sql.Identifier, ("pg_catalog", *sorted(own), "pg_temp")))
    cursor.execute(sql.SQL("SET LOCAL search_path = {}").format(path))
    yield
    cursor.execute("SELECT set_config('search_path', %s, true)", (usual,))


def omitted_fields(indices: Iterable[int]) -> str:
    """Return the indices of fields that a row omits, as `park_others` reads them."""
    return "".join(f",{i}," for i in indices)


def _differs(index: int, field: Field, omitted: int | None) -> sql.Composed:
    """Build the condition that `new` and a row `s` of the stage have different values of `field`.

    `omitted`: the stage's column of the fields that a row omits, if it has one.
    """
    given, type_ = sql.Identifier(f"c{index}"), sql.Identifier(*field.type)
    if field.type in _BY_VALUE:
        compared = sql.SQL("new.{name} IS DISTINCT FROM s.{given}::{type}")
    else:  # by the declared type, whose length and precision are part of the text
        compared = sql.SQL(
            '(new.{name}::text COLLATE "C") IS DISTINCT FROM (s.{given}::{declared}::text COLLATE "C")'
        )
    condition = compared.format(
        name=sql.Identifier(field.name), given=given, type=type_, declared=sql.SQL(field.declared)
    )
    if omitted is None:
        return condition
    return sql.SQL("({} AND strpos(s.{}, {}) = 0)").format(
        condition, sql.Identifier(f"c{omitted}"), sql.Literal(omitted_fields([index]))
    )
