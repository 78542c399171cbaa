"""A target: the table of a configured database in which an event lands."""

from typing import Final, NamedTuple

from shared import change_table

FREEZE: Final = "freeze"
DISCARD: Final = "discard"


class Target(NamedTuple):
    """A table of a configured database.

    `typed`: an existing table with a column for each field of the data; otherwise a landing table,
    which is created when its first event arrives.  `unknown_fields`: the rule for fields without a
    column in a typed table, `freeze` (the event is parked) or `discard` (dropped and counted).
    """

    database: str
    schema: str
    table: str
    typed: bool = False
    unknown_fields: str = FREEZE

    @property
    def holds_changes(self) -> bool:
        """Return whether this is a landing table of changes; its schema is closed to messages."""
        return not self.typed and self.schema == change_table.SCHEMA

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"
