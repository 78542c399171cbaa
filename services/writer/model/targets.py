"""A target: the table that an event lands in, of a configured database."""

from typing import Final, NamedTuple

from shared import change_table

FREEZE: Final = "freeze"
DISCARD: Final = "discard"


class Target(NamedTuple):
    """A table of a configured database.

    `typed`: an existing table whose columns take the fields of the data; else a landing table,
    which is created when its first event arrives.  `unknown_fields`: the rule for fields that a
    typed table has no column for, `freeze` (the event is parked) or `discard` (dropped and counted).
    """

    database: str
    schema: str
    table: str
    typed: bool = False
    unknown_fields: str = FREEZE

    @property
    def holds_changes(self) -> bool:
        """Return whether it is the landing table of a source's changes; no message may address that schema."""
        return not self.typed and self.schema == change_table.SCHEMA

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"
