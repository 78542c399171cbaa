"""The specification of an INSERT from the stage, its SQL, and its result by row."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

import numpy as np
from psycopg2 import sql

from services.writer.model.targets import Target
from services.writer.persist import stage
from shared.errors import UserError
from shared.landing_columns import Part, named

#: Columns in which a repeat differs from its event.
ARRIVAL: Final = frozenset(named(Part.ORIGIN, Part.RECEIPT))


@dataclass(frozen=True, slots=True)
class Field:
    """A supplied column: its name, the type to cast to (schema, name), and the type as declared."""

    name: str
    type: tuple[str, str]
    declared: str


@dataclass(frozen=True, slots=True)
class InsertSpec:
    """The table and columns of an INSERT.  `key`: the columns of the table's unique key, empty without one.

    `index`: the key's unique index, as an error names it.  `has_rules`: the table has rewrite
    rules, so Postgres rejects ON CONFLICT.
    """

    target: Target
    fields: tuple[Field, ...]
    key: tuple[str, ...] = ()
    index: str = ""
    _: KW_ONLY
    has_rules: bool = False

    @property
    def tells_repeats(self) -> bool:
        """Return whether repeats of an event have its key; false if the key has a column of `ARRIVAL`."""
        return bool(self.key) and ARRIVAL.isdisjoint(self.key)

    @property
    def table(self) -> sql.Composable:
        """Return the table's name, quoted."""
        return sql.Identifier(self.target.schema, self.target.table)

    @property
    def stage(self) -> sql.Composable:
        """Return the stage's name."""
        return stage.name(len(self.fields))

    def statement(self, where: str = "", *, on_conflict: bool = True) -> sql.Composed:
        """Build the INSERT from the stage, with the rows in order; `where` selects rows."""
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
            self._on_conflict() if on_conflict and self.key and not self.has_rules else sql.SQL(""),
        )

    def _on_conflict(self) -> sql.Composed:
        return sql.SQL("ON CONFLICT ({}) DO NOTHING").format(
            sql.SQL(", ").join(map(sql.Identifier, self.key))
        )

    def same_key(self) -> sql.Composed:
        """Build the condition that a row `new` of the table and a row `s` of the stage have equal keys."""
        index_of = {f.name: i for i, f in enumerate(self.fields)}
        return sql.SQL(" AND ").join(
            sql.SQL("new.{} = s.{}::{}").format(
                sql.Identifier(k),
                sql.Identifier(f"c{index_of[k]}"),
                sql.Identifier(*self.fields[index_of[k]].type),
            )
            for k in self.key
        )


@dataclass(slots=True)
class InsertResult:
    """By row index: the rows that landed, and the errors of rows to park; all others are duplicates."""

    landed: "np.ndarray[Any, np.dtype[np.bool_]]"
    errors: dict[int, UserError] = field(default_factory=dict)
