"""Classifies column types by the JSON values that they accept: one rule for each kind.

Postgres' input functions accept more than an event may mean: `'now'` as a time, text
truncated to fit a cast, numbers rounded to a column's scale.  `json_to_text` rejects values that
Postgres would change without an error; Postgres reports all other faults of a value.
"""

from dataclasses import KW_ONLY, dataclass
from enum import Enum, auto
from typing import Final


class Kind(Enum):
    """A group of types whose values are checked by the same rule."""

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
    OTHER = auto()  # uuid, enums, inet, …: a string that the type's input function parses
    NONE = auto()  # composite and pseudo-types: no value is accepted


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
    "xid": Kind.NUMBER,
    "cid": Kind.NUMBER,
    "xid8": Kind.NUMBER,
    "money": Kind.NONE,  # the meaning of "1,50" or 1.50 depends on the server's locale
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
#: Bytes of a varlena header, which a type modifier adds to the length or to precision and scale.
_HEADER: Final = 4
#: An interval's modifier: the precision in the low 16 bits, and above them a bit for each stored field.
_PRECISION: Final = 0xFFFF
_SECOND_FIELD: Final = 1 << 12
#: Bytes to which `name` and `"char"` truncate without an error.
_CUT_BYTES: Final = {"name": 63, "char": 1}


_INTEGERS: Final = frozenset({"int2", "int4", "int8"})
#: Bits of the unsigned types, which parse -1 as their largest number.
_UNSIGNED_BITS: Final = {"oid": 32, "xid": 32, "cid": 32, "xid8": 64}


@dataclass(frozen=True, slots=True)
class Type:
    """A base type with its domains resolved; `modifier` is -1 if none was declared.

    `element`: the type of an array's elements, or of a range's bounds.
    """

    schema: str
    name: str
    category: str
    modifier: int = -1
    _: KW_ONLY
    element: "Type | None" = None

    @property
    def kind(self) -> Kind:
        """The kind, which decides the rule for the type's values."""
        if self.schema == "pg_catalog" and self.name in _BY_NAME:
            return _BY_NAME[self.name]
        return _BY_CATEGORY.get(self.category, Kind.OTHER)

    @property
    def base_name(self) -> str:
        """The name of a built-in Postgres type; empty for any other type."""
        return self.name if self.schema == "pg_catalog" else ""

    @property
    def longest(self) -> int | None:
        """Maximum characters of a text; None if unlimited."""
        sized = self.name in ("varchar", "bpchar") and self.modifier > _HEADER
        return self.modifier - _HEADER if sized else None

    @property
    def longest_bytes(self) -> int | None:
        """Maximum bytes of a text; None if unlimited."""
        return _CUT_BYTES.get(self.name) if self.schema == "pg_catalog" else None

    @property
    def scale(self) -> int | None:
        """Maximum decimal digits that `numeric` stores (negative: tens); None if unlimited."""
        if self.name != "numeric" or self.modifier < _HEADER:
            return None
        return (((self.modifier - _HEADER) & 0x7FF) ^ 0x400) - 0x400

    @property
    def unsigned_bits(self) -> int | None:
        """Bits of an unsigned integer type; None for any other type."""
        return _UNSIGNED_BITS.get(self.name) if self.schema == "pg_catalog" else None

    @property
    def is_integer(self) -> bool:
        """Return whether the type's input function accepts digits only: no point and no exponent."""
        return self.schema == "pg_catalog" and (self.name in _INTEGERS or self.name in _UNSIGNED_BITS)

    @property
    def second_digits(self) -> int:
        """Maximum digits of a fraction of a second."""
        digits = self.modifier & _PRECISION if self.kind is Kind.INTERVAL else self.modifier
        return 6 if self.modifier == -1 or digits == _PRECISION else digits

    @property
    def keeps_seconds(self) -> bool:
        """Return whether an interval type stores seconds: `interval day` does not."""
        return self.modifier == -1 or bool(self.modifier >> 16 & _SECOND_FIELD)

    @property
    def float_name(self) -> str:
        """`float4` or `float8`; empty for a type that is not binary floating point."""
        return self.name if self.schema == "pg_catalog" and self.name in ("float4", "float8") else ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.  Events may supply a value for the column unless it `is_generated`."""

    name: str
    is_generated: bool
    has_default: bool
    #: The declared type, with its length; `isolate_rows` passes it to the server to find the wrong value.
    declared: str
    _: KW_ONLY
    type: Type
