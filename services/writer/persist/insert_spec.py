"""What an INSERT from the stage inserts where, its SQL, and what became of each row."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from psycopg2 import sql

from services.writer.model.targets import Target
from services.writer.persist import stage
from shared.errors import UserError


@dataclass(frozen=True, slots=True)
class Field:
    """A column that is given: its name, the type to cast to (schema, name), how it is declared."""

    name: str
    type: tuple[str, str]
    declared: str


@dataclass(frozen=True, slots=True)
class InsertSpec:
    """What is inserted where.  `key`: the columns that tell a repeat; empty when none does.

    `ruled`: the table has rewrite rules, which ON CONFLICT does not go with.  `index`: the
    key's own, as an error names it.
    """

    target: Target
    fields: tuple[Field, ...]
    key: tuple[str, ...] = ()
    index: str = ""
    ruled: bool = False

    @property
    def table(self) -> sql.Composable:
        """The table's name, quoted."""
        return sql.Identifier(self.target.schema, self.target.table)

    @property
    def stage(self) -> sql.Composable:
        """The stage's name."""
        return stage.name(len(self.fields))

    def statement(self, where: str = "", *, on_conflict: bool = True) -> sql.Composed:
        """The INSERT from the stage."""
        casts = [
            sql.SQL("s.{}::{}").format(sql.Identifier(f"c{i}"), sql.Identifier(*f.type))
            for i, f in enumerate(self.fields)
        ]
        return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} s {} ORDER BY s.n {}").format(
            self.table,
            sql.SQL(", ").join(sql.Identifier(f.name) for f in self.fields),
            sql.SQL(", ").join(casts),
            self.stage,
            sql.SQL(where),
            self._on_conflict() if on_conflict and self.key and not self.ruled else sql.SQL(""),
        )

    def _on_conflict(self) -> sql.Composed:
        return sql.SQL("ON CONFLICT ({}) DO NOTHING").format(
            sql.SQL(", ").join(map(sql.Identifier, self.key))
        )

    def same_key(self) -> sql.Composed:
        """That a row `new` of the table and a row `s` of the stage have one key."""
        at = {f.name: i for i, f in enumerate(self.fields)}
        return sql.SQL(" AND ").join(
            sql.SQL("new.{} = s.{}::{}").format(
                sql.Identifier(k), sql.Identifier(f"c{at[k]}"), sql.Identifier(*self.fields[at[k]].type)
            )
            for k in self.key
        )


@dataclass(slots=True)
class InsertResult:
    """By place: which rows landed, and the errors of those that are parked; the rest are duplicates."""

    landed: "np.ndarray[Any, np.dtype[np.bool_]]"
    errors: dict[int, UserError] = field(default_factory=dict)
