"""The dated history of sources' tables (`onramp.source_tables`), which the merger reads."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from psycopg2.extensions import connection

_VERSION: Final = "SELECT count(*), max(observed_at) FROM onramp.source_tables"
_HISTORY: Final = """
    SELECT source, schema_name, table_name, columns, key, dropped
    FROM onramp.source_tables ORDER BY source, schema_name, table_name, observed_at
"""


class TableName(NamedTuple):
    """The name of a source's table."""

    source: str
    schema: str
    table: str

    def __str__(self) -> str:
        return ".".join(self)


class Column(NamedTuple):
    """A column of a source's table, with its type as `format_type` returns it."""

    name: str
    type: str


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """A source's table: its current columns, its earlier columns, and its key."""

    name: TableName
    columns: tuple[Column, ...]
    earlier: tuple[Column, ...] = ()
    #: Generated columns, which changes do not have.
    generated: frozenset[str] = frozenset()
    key: tuple[str, ...] = ()

    @cached_property
    def known(self) -> frozenset[str]:
        """The names of all columns that a change may have."""
        return self.generated | {c.name for c in (*self.columns, *self.earlier)}


def version(conn: connection) -> tuple[Any, ...]:
    """Return a value that differs when the history has grown."""
    with conn.cursor() as cursor:
        cursor.execute(_VERSION)
        return tuple(cursor.fetchone() or ())


def tables(conn: connection) -> dict[TableName, SourceTable]:
    """Return all tables of the history."""
    entries: dict[TableName, list[tuple[Any, ...]]] = {}
    with conn.cursor() as cursor:
        cursor.execute(_HISTORY)
        for source, schema, table, *entry in cursor.fetchall():
            entries.setdefault(TableName(source, schema, table), []).append(tuple(entry))
    return {name: _table(name, of_table) for name, of_table in entries.items()}


def _table(name: TableName, entries: Iterable[tuple[Any, ...]]) -> SourceTable:
    seen: dict[str, Column] = {}
    generated: set[str] = set()
    latest: list[Mapping[str, Any]] = []
    key: tuple[str, ...] = ()
    for columns, of_key, dropped in entries:
        if dropped:
            continue
        latest, key = columns, tuple(of_key or ())
        seen |= {c["name"]: Column(c["name"], c["type"]) for c in columns if not c.get("generated")}
        generated |= {c["name"] for c in columns if c.get("generated")}
    current = tuple(Column(c["name"], c["type"]) for c in latest if not c.get("generated"))
    names = {c.name for c in current}
    return SourceTable(
        name=name,
        columns=current,
        earlier=tuple(c for c in seen.values() if c.name not in names),
        generated=frozenset(generated),
        key=key,
    )
