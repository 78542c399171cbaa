"""A target: the table that an event lands in, of a configured database."""

from typing import Final, NamedTuple

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

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"
