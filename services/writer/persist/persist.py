"""PERSIST: writes the rows of one table; each row has exactly one outcome.

A landing table belongs to Onramp: a binary COPY writes to it directly, and INSERT (`insert`) handles rows
that exist already or are rejected.  A typed table belongs to its owner: see `typed_table`.  Deferred
constraints are immediate until the transaction ends, because at COMMIT they would fail the whole batch.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import psycopg2
import pyarrow as pa
from psycopg2.extensions import connection

from services.writer.columns import no_unique_key
from services.writer.model.bisect_failures import Failed, Odds, halve
from services.writer.model.targets import Target
from services.writer.persist import landing_tables, typed_table
from services.writer.persist.copy import copy_into, savepoint
from services.writer.persist.copy_new_rows import copy_first
from services.writer.persist.insert import insert
from services.writer.persist.insert_spec import Field, InsertResult, InsertSpec
from services.writer.persist.repeats import park_others
from services.writer.persist.row_results import Parked, PersistResult, all_parked, assemble, concatenated
from services.writer.postgres.answer_cache import StaleAnswerError
from services.writer.postgres.database import Database
from shared import failpoints, landing_columns
from shared.errors import INTERNAL_PERSIST, NOT_CONFIGURED, InfrastructureError, OnrampError, UserError

__all__ = ["Parked", "PersistResult", "all_parked", "make_constraints_immediate", "persist", "persist_apart"]

#: A function that writes rows to one table, as `persist` does.
Write = Callable[[connection, Database, Target, pa.Table], PersistResult]
#: Recent successes and failures of this process, by table.
_odds = Odds()
#: The catalog's names of types, which a cast needs.
_CAST_TO: Final = {"integer": "int4", "bigint": "int8"}
#: The columns of a landing table that hold JSON.
JSONB: Final = frozenset(c.name for c in landing_columns.COLUMNS if c.type == "jsonb")
_FIELDS: Final = tuple(
    Field(c.name, ("pg_catalog", _CAST_TO.get(c.type, c.type)), c.type) for c in landing_columns.COLUMNS
)


def make_constraints_immediate(conn: connection) -> None:
    """Make each statement check deferred constraints; call it before a transaction's first `persist`."""
    with conn.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def persist(
    conn: connection, database: Database, target: Target, rows: pa.Table, write: Write | None = None
) -> PersistResult:
    """Write `rows` (columns as `landing_tables.COLUMNS`) to `target`, within the caller's transaction.

    `write`: the function that writes to a table that is not a table of events.  Costs one COPY if all rows
    are new.  Raise psycopg2's error, or `OnrampError`, if the rows are not at fault; the transaction is
    unusable afterwards.
    """
    result = _persist(conn, database, target, rows, write)
    _odds.passed({target: rows.num_rows})
    return result


def landed_already(target: Target, rows: pa.Table) -> PersistResult:
    """Return the result of `rows`, all of which landed in `target` together with rows of other tables."""
    failpoints.meet("writer.persist", [rows.column("_id")])
    _odds.passed({target: rows.num_rows})
    return assemble(rows, np.ones(rows.num_rows, dtype=bool), {})


def persist_apart(
    conn: connection, database: Database, target: Target, rows: pa.Table, write: Write | None = None
) -> PersistResult:
    """Write as `persist` does, but park each row for which it raises an unexpected exception.

    The rows are found by bisection, each piece under a savepoint.  Raise as `persist` does, and the
    unexpected exception itself if too many rows fail for the fault to be theirs (`Odds`).
    """
    pieces: dict[int, PersistResult] = {}

    def work(start: int, end: int) -> None:
        with savepoint(conn):
            pieces[start] = _persist(conn, database, target, rows.slice(start, end - start), write)

    failed = halve(rows.num_rows, work, (psycopg2.Error, OnrampError, MemoryError))
    events = [Failed(target, _receipt(rows, i)) for i in failed]
    if failed and not _odds.are_at_fault(events, {target: rows.num_rows - len(failed)}):
        raise next(iter(failed.values()))
    for i, e in failed.items():
        error = UserError(INTERNAL_PERSIST, f"{type(e).__name__}; other rows of the table passed")
        pieces[i] = all_parked(rows.slice(i, 1), error)
    return concatenated(pieces)


def _receipt(rows: pa.Table, row_index: int) -> tuple[str, ...]:
    return tuple(str(rows.column(name)[row_index]) for name in ("_topic", "_partition", "_offset"))


def _persist(
    conn: connection, database: Database, target: Target, rows: pa.Table, write: Write | None
) -> PersistResult:
    # A registry cannot open a schema that the settings close.
    if target.typed and target.schema not in database.schemas:
        reason = f"database {database.name} opens only the schemas {', '.join(database.schemas)}"
        raise InfrastructureError(NOT_CONFIGURED, reason)
    write = write or (typed_table.persist if target.typed else _land)
    result = write(conn, database, target, rows)
    failpoints.meet("writer.persist", [rows.column("_id")])  # also for rows that waited for a lock
    return result


def _land(conn: connection, database: Database, target: Target, rows: pa.Table) -> PersistResult:
    try:
        landing_tables.ensure_table(conn, database, target.table)
    except UserError as e:  # no permission to create it, which holds for every row
        return all_parked(rows, e)
    spec = landing_spec(target, has_key=landing_tables.has_key(database, target.table))
    inserted = land_by(conn, database, spec, rows, lambda part: _insert(conn, database, spec, part))
    result = assemble(rows, inserted.landed, inserted.errors)
    if not landing_tables.has_key(database, target.table):
        no_unique_key.warn_once(database, target)
        result.unkeyed = result.landed.total()
    return result


def landing_spec(target: Target, *, has_key: bool) -> InsertSpec:
    """Return the INSERT specification for a table with the columns of a landing table."""
    return InsertSpec(target, _FIELDS, (landing_tables.KEY,) if has_key else ())


def land_by(
    conn: connection,
    database: Database,
    spec: InsertSpec,
    rows: pa.Table,
    insert_rest: Callable[[pa.Table], InsertResult],
) -> InsertResult:
    """COPY `rows` into a table of `landing_spec`, and write the remaining rows by `insert_rest`."""
    return copy_first(
        conn,
        database,
        spec,
        rows,
        copy=lambda part: copy_into(conn, spec.table, part, jsonb=JSONB),
        insert=insert_rest,
    )


def _insert(conn: connection, database: Database, spec: InsertSpec, rows: pa.Table) -> InsertResult:
    """Insert `rows` as `insert_landing` does.

    Before any row is parked the table's key is queried again.  If its owner has dropped or restored the
    key since, the insert starts again.
    """

    def described() -> InsertSpec:
        return landing_spec(spec.target, has_key=landing_tables.has_key(database, spec.target.table))

    def confirm() -> None:
        landing_tables.confirm_table(conn, database, spec.target.table)
        if described() != spec:
            raise StaleAnswerError

    try:
        return insert_landing(conn, database, spec, rows, confirm)
    except StaleAnswerError:
        return _insert(conn, database, described(), rows)


def insert_landing(
    conn: connection, database: Database, spec: InsertSpec, rows: pa.Table, confirm: Callable[[], None]
) -> InsertResult:
    """Insert `rows` through a stage; a row under the id of another event gets ID_REUSE.

    `confirm` is called before any row is parked, and may raise.
    """
    columns = [_as_text(rows.column(f.name)) for f in _FIELDS]
    result = insert(conn, database, spec, columns, confirm)
    park_others(conn, database, spec, columns, result, before_parking=confirm)
    return result


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().cast(pa.string())
