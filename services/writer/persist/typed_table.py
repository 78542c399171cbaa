"""PERSIST into an existing table: each field of the data goes into the column with its name."""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import pyarrow as pa
from psycopg2.extensions import connection

from services.writer.columns import catalog, no_unique_key
from services.writer.columns.catalog import Table
from services.writer.model.targets import Target
from services.writer.persist import typed_rows
from services.writer.persist.copy import copy_texts, savepoint
from services.writer.persist.copy_new_rows import copy_first
from services.writer.persist.insert import insert
from services.writer.persist.insert_spec import InsertResult
from services.writer.persist.merged_groups import MergedGroup, merge_groups
from services.writer.persist.repeats import park_others
from services.writer.persist.row_results import PersistResult, all_parked, assemble, row_error
from services.writer.persist.typed_rows import Group
from services.writer.postgres.answer_cache import DISCARD_SECONDS, StaleAnswerError
from services.writer.postgres.database import Database
from shared.errors import UNSUITABLE_TABLE, UserError

#: Maximum attempts to write to a table whose columns change while its rows are written.
_TRIES: Final = 5
_ABSENT: Final = """
    SELECT given.schema, given.name FROM unnest(%s::text[], %s::text[]) given (schema, name)
    WHERE NOT EXISTS (
        SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = given.schema AND c.relname = given.name)
"""


def absent(conn: connection, database: Database, targets: Iterable[Target]) -> frozenset[Target]:
    """Return the `targets` without a table in the database, by one query.

    Packets may name any number of tables.  `persist` decides about landing tables, closed schemas (whose
    events wait), known tables, and names that are not ASCII.
    """
    typed = (t for t in targets if t.typed and t.schema in database.schemas)
    unknown = [t for t in typed if str(t).isascii() and catalog.known(database, t) is None]
    if len(unknown) < 2:  # noqa: PLR2004 - a single table is as fast in `persist`
        return frozenset()
    with conn.cursor() as cursor:
        cursor.execute(_ABSENT, ([t.schema for t in unknown], [t.table for t in unknown]))
        names = set(cursor.fetchall())
    return frozenset(t for t in unknown if (t.schema, t.table) in names)


def all_absent(database: Database, target: Target, rows: pa.Table) -> PersistResult:
    """Return the result of `rows` for a table that is absent."""
    return all_parked(rows, _absent_error(database, target))


def _absent_error(database: Database, target: Target) -> UserError:
    return row_error(database, target, "42P01", "no table has this name")


def persist(conn: connection, database: Database, target: Target, rows: pa.Table) -> PersistResult:
    """Write `rows` to the existing table `target`.  Raise psycopg2's error if the rows are not at fault."""
    cached = catalog.known(database, target)
    for _ in range(_TRIES):
        try:
            return _persist(conn, database, target, rows, cached)
        except StaleAnswerError:
            cached = None
    return _persist(conn, database, target, rows)


def _persist(
    conn: connection, database: Database, target: Target, rows: pa.Table, cached: Table | None = None
) -> PersistResult:
    """Write `rows` by the `cached` description of the table, or by a new one.

    No row is parked, changed or stripped of a field because of a stale description: the catalog is queried
    again first.  Raise `StaleAnswerError` if the table has changed.
    """
    table = cached or catalog.describe(conn, database, target)

    def confirm() -> None:
        if cached and catalog.describe(conn, database, target) != table:
            raise StaleAnswerError

    error = _unsuitable(database, target, table)
    if error or table is None:
        confirm()
        return all_parked(rows, error or _absent_error(database, target))
    prepared = typed_rows.prepare(rows, target, table)
    errors = {
        row_index: row_error(
            database,
            target,
            r.sqlstate,
            r.reason,
            column=r.column,
            column_type=table.columns[r.column].declared if r.column in table.columns else None,
            fault=r.fault,
        )
        for row_index, r in prepared.rejected.items()
    }
    if errors or (prepared.discarded and not catalog.known(database, target, DISCARD_SECONDS)):
        confirm()
    landed, unkeyed = np.zeros(rows.num_rows, dtype=bool), 0
    with savepoint(conn):
        for group in merge_groups(prepared.groups, table):
            inserted = _land_merged(conn, database, group, confirm)
            row_indices = group.whole.row_indices
            landed[row_indices[inserted.landed]] = True
            unkeyed += 0 if group.whole.spec.tells_repeats else int(inserted.landed.sum())
            errors |= {int(row_indices[i]): e for i, e in inserted.errors.items()}
        if prepared.groups and not catalog.is_current(conn, target, table):
            raise StaleAnswerError
    result = assemble(rows, landed, errors)
    if unkeyed:
        no_unique_key.warn_once(database, target)
    result.unkeyed, result.discarded_fields = unkeyed, prepared.discarded
    return result


def _land_merged(
    conn: connection, database: Database, group: MergedGroup, confirm: Callable[[], None]
) -> InsertResult:
    """Write the rows of `group`; those that may lack the right to a column they omit are tried without it."""
    result = _land(conn, database, group.whole, confirm)
    for part in group.uncertain(result):
        of_part, positions = _land(conn, database, part, confirm), group.positions(part)
        result.landed[positions] = of_part.landed
        for position in positions.tolist():
            del result.errors[position]
        result.errors |= {int(positions[i]): error for i, error in of_part.errors.items()}
    return result


def _land(conn: connection, database: Database, group: Group, confirm: Callable[[], None]) -> InsertResult:
    """Write the rows of `group`; `confirm` may raise `StaleAnswerError` before any of them is parked."""
    spec = group.spec
    rows = pa.table(group.columns, [f.name for f in spec.fields])
    result = copy_first(
        conn,
        database,
        spec,
        rows,
        copy=lambda part: copy_texts(conn, spec.table, part),
        insert=lambda part: insert(conn, database, spec, _columns(part), confirm),
    )
    park_others(conn, database, spec, group.columns, result, before_parking=confirm, omitted=group.omitted)
    return result


def _columns(rows: pa.Table) -> list[pa.Array]:
    return [column.combine_chunks() for column in rows.columns]


def _unsuitable(database: Database, target: Target, table: Table | None) -> UserError | None:
    """Return the reason why no event can land in `table`, or None."""
    if table is None:
        return None
    if not table.is_table:
        return row_error(database, target, "42809", "the target is not a table", fault=UNSUITABLE_TABLE)
    for key in table.keys:
        if not key.immediate:
            reason = "a deferrable key cannot identify repeats of an event"
            return row_error(database, target, "55000", reason, constraint=key.index, fault=UNSUITABLE_TABLE)
    return None
