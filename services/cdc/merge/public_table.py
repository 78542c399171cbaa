"""The SQL of one public table: its columns, each with the SQL that decodes its value, and its key."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from psycopg2 import sql

from services.cdc.merge.column_types import (
    ColumnType,
    UnsupportedTypeError,
    column_type,
    is_silent,
)
from services.cdc.merge.history_sql import SourceTable, TableName
from services.cdc.merge.suspended import SuspendedError

#: For readers: the position of a row's last change in the source's log, and the time of its commit.
LSN: Final = "_lsn"
COMMITTED_AT: Final = "_committed_at"
OWN: Final = ((LSN, "pg_lsn"), (COMMITTED_AT, "timestamptz"))
_LSN_VALUE: Final = sql.SQL("('0/0'::pg_lsn + f.lsn)")
_COMMITTED_VALUE: Final = sql.SQL("(timestamptz 'epoch' + f.ms * interval '1 millisecond')")


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """An operator's settings of a table: rows for which `where` is true, without `excluded_columns`."""

    where: str = ""
    excluded_columns: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class PublicTable:
    """A public table: `types` of its columns by name, in order."""

    schema: str
    name: str
    #: The table at its source, as `onramp sources` accepts it.
    source: TableName
    types: dict[str, ColumnType]
    key: tuple[str, ...]
    cleaning: Cleaning = Cleaning()
    #: Columns for which an update has NULL for an unchanged large value.
    silent: tuple[str, ...] = ()

    @property
    def identifier(self) -> sql.Identifier:
        """Return the table's name, quoted."""
        return sql.Identifier(self.schema, self.name)

    @property
    def columns(self) -> Sequence[str]:
        """Return the columns that come from the source."""
        return tuple(self.types)

    @cached_property
    def values(self) -> dict[str, sql.Composable]:
        """SQL for the values of all columns of `f.row`, Onramp's own last."""
        made = {name: self.value(name, sql.SQL("f.row")) for name in self.types}
        return made | {LSN: _LSN_VALUE, COMMITTED_AT: _COMMITTED_VALUE}

    def value(self, column: str, row: sql.Composable) -> sql.Composable:
        """Return SQL for the value of `column` in `row`, SQL for a change's row."""
        return self.types[column].value(row, column)

    def same_key(self, row: str, json: sql.Composable) -> sql.Composable:
        """Return the condition that the table's row `row` has the key `json` (SQL for an array)."""
        return sql.SQL(" AND ").join(
            sql.SQL("{} = {}").format(
                sql.Identifier(row, name),
                self.types[name].value(json, n),
            )
            for n, name in enumerate(self.key)
        )


def public_table(schema: str, table: SourceTable, cleaning: Cleaning) -> PublicTable:
    """Return the public table of `table` in `schema`.  Raises `SuspendedError`."""
    names = {c.name for c in table.columns}
    if taken := names & {name for name, _ in OWN}:
        raise SuspendedError(
            f"the source's table has a column {_listed(taken)}, which is Onramp's own in a public table: "
            "rename it at the source, or exclude the table"
        )
    if of_key := cleaning.excluded_columns & set(table.key):
        raise SuspendedError(
            f"models leaves out {_listed(of_key)}, which is of the key: take it out of its columns"
        )
    types: dict[str, ColumnType] = {}
    for column in table.columns:
        if column.name in cleaning.excluded_columns:
            continue
        try:
            types[column.name] = column_type(column.type)
        except UnsupportedTypeError as e:
            raise SuspendedError(
                f"column {column.name} is of type {e}, which does not arrive as it is: exclude the table, "
                "or let the source give the column another type"
            ) from None
    return PublicTable(
        schema=schema,
        name=table.name.table,
        source=table.name,
        types=types,
        key=table.key,
        cleaning=cleaning,
        silent=tuple(c.name for c in table.columns if c.name in types and is_silent(c.type)),
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
