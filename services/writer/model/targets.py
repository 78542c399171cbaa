"""A target: the table that an event lands in, of a configured database."""

from typing import Final, NamedTuple

FREEZE: Final = "freeze"
DISCARD: Final = "discard"


class Target(NamedTuple):
    """Where a row goes.

    `typed`: an existing table whose columns take what the data names; else a landing table,
    which is made on first sight.  `unknown_fields`: what becomes of data that a typed table
    has no column for, `freeze` (parked) or `discard` (dropped and counted).
    """

    database: str
    schema: str
    table: str
    typed: bool = False
    unknown_fields: str = FREEZE

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"
