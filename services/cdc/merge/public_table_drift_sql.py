"""Compares a public table with the shape that the merger stored, and reports changes by others.

A column that was dropped, renamed or retyped would get nulls or rounded values unnoticed.  Columns are
compared by number: a column that was dropped and created again is a different one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

import orjson
from psycopg2 import sql
from psycopg2.extensions import connection

from services.cdc.merge.history_sql import TableName
from services.cdc.merge.public_table import OWN, PublicTable
from services.cdc.merge.suspended import SuspendedError

#: In another (restored) database, tables and columns have other numbers.
_COLUMNS: Final = """
    SELECT place.id, c.oid::int8, a.attname::text, a.attnum, format_type(a.atttypid, a.atttypmod)
    FROM (SELECT s.system_identifier || '/' || d.oid AS id FROM pg_control_system() s, pg_database d
          WHERE d.datname = current_database()) AS place
    LEFT JOIN pg_class c ON c.oid = to_regclass(%s)
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
"""
_RECORD: Final = """
    UPDATE onramp.table_settings SET stored_shape = %s
    WHERE source = %s AND schema_name = %s AND table_name = %s
"""
_NOTE: Final = """
    UPDATE onramp.table_settings SET stored_shape = stored_shape || jsonb_build_object('damage', %s)
    WHERE source = %s AND schema_name = %s AND table_name = %s AND stored_shape IS NOT NULL
"""


class DamagedError(SuspendedError):
    """Values of the public table may have been cut, although its shape looks unchanged."""


class Column(NamedTuple):
    """A column by its number, with its type as `format_type` returns it."""

    number: int
    type: str


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The shape of a public table at one moment; `oid` is None when the table does not exist."""

    place: str
    oid: int | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    #: A change of the table that only a rebuild or a resync undoes.
    damage: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the shape that is stored as `document`."""
        columns = {name: Column(*column) for name, column in document["columns"].items()}
        return cls(
            place=document["place"],
            oid=document["oid"],
            columns=columns,
            damage=document.get("damage", ""),
        )


def columns_now(conn: connection, table: PublicTable) -> Shape:
    """Return the table's shape in the catalogue."""
    with conn.cursor() as cursor:
        cursor.execute(_COLUMNS, (table.identifier.as_string(conn),))
        rows = cursor.fetchall()
    place, oid = rows[0][:2]
    columns = {name: Column(*column) for _, _, name, *column in rows if name is not None}
    return Shape(place=place, oid=oid, columns=columns)


def require_as_left(table: PublicTable, stored: Shape | None, now: Shape) -> None:
    """Raise `SuspendedError` where the table was changed since the merger left it as `stored`."""
    if stored is None:
        return
    if stored.damage:
        raise DamagedError(stored.damage)
    where, again = f"{table.schema}.{table.name}", f"onramp sources rebuild {table.source}"
    if now.oid is None or (stored.place == now.place and stored.oid != now.oid):
        raise SuspendedError(
            f"a person dropped or renamed the public table {where}, or it is now published in another "
            f"schema without its rows: {again}"
        )
    is_here = stored.place == now.place
    for name in (*table.types, *(own for own, _ in OWN)):
        was, found = stored.columns.get(name), now.columns.get(name)
        if was is None:
            if found is not None:
                raise SuspendedError(
                    f"{where} has a column {name} that a person added, and its source has one of that name: "
                    f"drop or rename it, or {again}"
                )
        elif found is None or (is_here and found.number != was.number):
            if is_here and (others := [n for n, c in now.columns.items() if c.number == was.number]):
                raise SuspendedError(
                    f"a person renamed the column {name} of {where} to {others[0]}, and {name} would be "
                    f"null: rename it back, or {again}"
                )
            raise SuspendedError(f"a person dropped the column {name} of {where} with its values: {again}")
        elif found.type != was.type:
            raise DamagedError(
                f"a person changed the column {name} of {where} from {was.type} to {found.type}, which may "
                f"have cut values irreversibly: {again}"
            )


def is_as_stored(table: PublicTable, stored: Shape | None, now: Shape) -> bool:
    """Return whether the stored shape equals the current one."""
    return stored == _own_shape(table, stored, now)


def keep(conn: connection, table: PublicTable, stored: Shape | None) -> None:
    """Store the table's current shape, within the caller's transaction."""
    kept = _own_shape(table, stored, columns_now(conn, table))
    columns = {name: [*column] for name, column in kept.columns.items()}
    document = {"place": kept.place, "oid": kept.oid, "columns": columns}
    with conn.cursor() as cursor:
        cursor.execute(_RECORD, (orjson.dumps(document).decode(), *table.source))


def note(conn: connection, name: TableName, damage: str) -> None:
    """Store the change of the table: its columns may be restored later, but its values are not."""
    with conn, conn.cursor() as cursor:
        cursor.execute(_NOTE, (damage, *name))


def empty(conn: connection, table: PublicTable, now: Shape) -> None:
    """Empty the table, if it exists."""
    if now.oid is not None:
        with conn.cursor() as cursor:
            cursor.execute(sql.SQL("DELETE FROM {}").format(table.identifier))


def _own_shape(table: PublicTable, stored: Shape | None, now: Shape) -> Shape:
    return Shape(place=now.place, oid=now.oid, columns=dict(_own(table, stored, now)))


def _own(table: PublicTable, stored: Shape | None, now: Shape) -> Iterator[tuple[str, Column]]:
    """Yield the merger's columns, including those that the source no longer has."""
    names = {*table.types, *(name for name, _ in OWN), *(stored.columns if stored else ())}
    yield from ((name, column) for name, column in now.columns.items() if name in names)
