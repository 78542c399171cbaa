"""Which JSON goes into which type of column: one rule for each kind.

Postgres' own input functions accept more than an event may mean: `'now'` as a time, text
that is cut to fit a cast, numbers rounded to a column's scale.  What they would change in
silence is refused here; whatever else is wrong with a value, Postgres says.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


class Kind(Enum):
    """What a type's values are judged by."""

    TEXT = auto()
    NUMBER = auto()
    BOOL = auto()
    JSON = auto()
    BYTES = auto()
    TIMESTAMPTZ = auto()
    TIMESTAMP = auto()
    DATE = auto()
    TIME = auto()
    TIMETZ = auto()
    INTERVAL = auto()
    RANGE = auto()
    ARRAY = auto()
    OTHER = auto()  # uuid, enums, inet, …: a string, as the type's input reads it
    NONE = auto()  # composite and pseudo-types: nothing goes in


_BY_NAME: Final = {
    "char": Kind.TEXT,
    "json": Kind.JSON,
    "jsonb": Kind.JSON,
    "bytea": Kind.BYTES,
    "timestamptz": Kind.TIMESTAMPTZ,
    "timestamp": Kind.TIMESTAMP,
    "date": Kind.DATE,
    "time": Kind.TIME,
    "timetz": Kind.TIMETZ,
    "interval": Kind.INTERVAL,
    "money": Kind.NONE,  # what "1,50" or 1.50 means there is the server's locale's matter
}
#: pg_type.typcategory, https://www.postgresql.org/docs/current/catalog-pg-type.html
_BY_CATEGORY: Final = {
    "S": Kind.TEXT,
    "N": Kind.NUMBER,
    "B": Kind.BOOL,
    "A": Kind.ARRAY,
    "R": Kind.RANGE,
    "C": Kind.NONE,
    "P": Kind.NONE,
}
#: A type modifier holds its length, or precision and scale, above this header's size.
_HEADER: Final = 4
#: An interval's modifier: its precision in the low half, above it a bit for each field that it keeps.
_PRECISION: Final = 0xFFFF
_SECOND_FIELD: Final = 1 << 12
#: `name` and `"char"` cut in silence what is longer, in bytes.
_CUT_BYTES: Final = {"name": 63, "char": 1}


@dataclass(frozen=True, slots=True)
class Type:
    """A type without its domains; `modifier` is -1 where none was declared."""

    schema: str
    name: str
    category: str
    modifier: int = -1
    element: "Type | None" = None

    @property
    def kind(self) -> Kind:
        """What its values are judged by."""
        if self.schema == "pg_catalog" and self.name in _BY_NAME:
            return _BY_NAME[self.name]
        return _BY_CATEGORY.get(self.category, Kind.OTHER)

    @property
    def longest(self) -> int | None:
        """The most characters of a text; None: any number."""
        sized = self.name in ("varchar", "bpchar") and self.modifier > _HEADER
        return self.modifier - _HEADER if sized else None

    @property
    def longest_bytes(self) -> int | None:
        """The most bytes of a text; None: any number."""
        return _CUT_BYTES.get(self.name) if self.schema == "pg_catalog" else None

    @property
    def scale(self) -> int | None:
        """The most digits after the point that `numeric` keeps (negative: tens); None: all."""
        if self.name != "numeric" or self.modifier < _HEADER:
            return None
        return (((self.modifier - _HEADER) & 0x7FF) ^ 0x400) - 0x400

    @property
    def second_digits(self) -> int:
        """The most digits of a fraction of a second."""
        digits = self.modifier & _PRECISION if self.kind is Kind.INTERVAL else self.modifier
        return 6 if self.modifier == -1 or digits == _PRECISION else digits

    @property
    def keeps_seconds(self) -> bool:
        """Whether an interval keeps all of its fields: `interval day` does not."""
        return self.modifier == -1 or bool(self.modifier >> 16 & _SECOND_FIELD)

    @property
    def float_name(self) -> str:
        """`float4` or `float8`, where its numbers are binary."""
        return self.name if self.schema == "pg_catalog" and self.name in ("float4", "float8") else ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that values may be given for, unless it `is_generated`."""

    name: str
    is_generated: bool
    has_default: bool
    #: As declared, with its length: what a value is judged by when a reason is looked for.
    declared: str
    type: Type
