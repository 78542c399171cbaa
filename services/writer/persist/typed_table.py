"""PERSIST into an existing table: what the data name goes into the columns of those names."""

from collections.abc import Callable

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
from services.writer.persist.row_errors import refusal
from services.writer.persist.row_results import PersistResult, all_parked, assemble
from services.writer.persist.typed_rows import Group
from services.writer.postgres.answer_cache import DISCARD_SECONDS
from services.writer.postgres.database import Database
from shared.errors import UNSUITABLE_TABLE, UserError


class _StaleError(Exception):
    """The table is not what the catalogue said when it was last asked."""


def persist(conn: connection, database: Database, target: Target, rows: pa.Table) -> PersistResult:
    """Land `rows` in the existing table `target`; psycopg2's error when the fault is not the rows'."""
    remembered = catalog.known(database, target)
    if remembered is not None:
        try:
            return _persist(conn, database, target, rows, remembered)
        except _StaleError:
            pass
    return _persist(conn, database, target, rows)


def _persist(
    conn: connection, database: Database, target: Target, rows: pa.Table, remembered: Table | None = None
) -> PersistResult:
    """Land `rows` by the description that is `remembered`, or by a new one.

    Nobody is parked and nothing is dropped on the word of an old description: the catalogue is
    asked again, and a table that has changed starts all over.
    """
    table = remembered or catalog.describe(conn, database, target)

    def confirm() -> None:
        if remembered and catalog.describe(conn, database, target) != table:
            raise _StaleError

    error = _unsuitable(database, target, table)
    if error or table is None:
        confirm()
        return all_parked(rows, error or refusal(database, target, "42P01", "there is none of this name"))
    prepared = typed_rows.prepare(rows, target, table)
    errors = {
        place: refusal(database, target, m.sqlstate, m.why, column=m.column, fault=m.fault)
        for place, m in prepared.misplaced.items()
    }
    if errors or (prepared.discarded and not catalog.known(database, target, DISCARD_SECONDS)):
        confirm()
    if not table.keys:
        no_unique_key.warn_once(database, target)
    landed = np.zeros(rows.num_rows, dtype=bool)
    with savepoint(conn):
        for group in prepared.groups:
            found = _land(conn, database, group, confirm)
            places = np.asarray(group.places)
            landed[places[found.landed]] = True
            errors |= {group.places[i]: e for i, e in found.errors.items()}
    out = assemble(rows, landed, errors)
    out.no_unique_key, out.discarded_fields = not table.keys, prepared.discarded
    return out


def _land(conn: connection, database: Database, group: Group, confirm: Callable[[], None]) -> InsertResult:
    """Land the rows of `group`."""
    what = group.what
    rows = pa.table(group.columns, [f.name for f in what.fields])
    return copy_first(
        conn,
        database,
        what,
        rows,
        copy=lambda some: copy_texts(conn, what.table, some),
        insert=lambda some: insert(conn, database, what, _columns(some), confirm),
    )


def _columns(rows: pa.Table) -> list[pa.Array]:
    return [column.combine_chunks() for column in rows.columns]


def _unsuitable(database: Database, target: Target, table: Table | None) -> UserError | None:
    """Why no event can land in `table`, if so."""
    if table is None:
        return None
    if not table.is_table:
        return refusal(database, target, "42809", "it is no table", fault=UNSUITABLE_TABLE)
    for key in table.keys:
        if not key.immediate:
            why = "a deferrable key cannot tell an event from its repeat"
            return refusal(database, target, "55000", why, constraint=key.index, fault=UNSUITABLE_TABLE)
    return None
