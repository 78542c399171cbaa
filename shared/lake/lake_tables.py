"""A table of the lake as the registry describes it: its name, partitioning, and typed columns.

A routes snapshot contains these tables, and a planned range is finished under the snapshot of its plan.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from shared.contracts.object_fields import fields_of

#: Names of tables are folders, and identifiers of every engine.
TABLE_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
COLUMN_PREFIX: Final = "p_"
#: Maximum typed columns of a table; further properties are in `payload` alone.
MAX_COLUMNS: Final = 500
#: Column of the UTC day of `_timestamp`, and of the first day of its month in tables by month.
DATE: Final = "_date"
MONTH: Final = "_month"
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,100}")
_DIGEST_DIGITS: Final = 8


class Partitioning(StrEnum):
    """The partitioning of a table, which is fixed when the table is created."""

    DAY = "day"
    MONTH = "month"
    NONE = "none"

    @property
    def columns(self) -> list[str]:
        """Return the partition columns."""
        return {Partitioning.DAY: [DATE], Partitioning.MONTH: [MONTH], Partitioning.NONE: []}[self]


class Kind(StrEnum):
    """The type of a typed column."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"


class Property(NamedTuple):
    """A top-level property of the payload with a typed column."""

    name: str
    kind: Kind


class LakeTable(NamedTuple):
    """A table of the lake, with the events of one type."""

    name: str
    partitioning: Partitioning = Partitioning.DAY
    properties: tuple[Property, ...] = ()
    keep_days: int | None = None


def properties_of(schema: Mapping[str, Any] | None) -> tuple[Property, ...]:
    """Return the typed properties of an event type's JSON Schema, by name.

    They are those whose columns `create: true` creates. If several schemas of a property are in force, its
    kind is that of the first schema that has one.
    """
    properties = []
    for name, declared in sorted(fields_of(schema or {}).items()):
        kind = next(filter(None, map(_kind_of, declared)), None)
        if kind is not None:
            properties.append(Property(name, kind))
    return tuple(properties[:MAX_COLUMNS])


def _kind_of(declared: Any) -> Kind | None:
    """Return the kind of a property with exactly one of the simple types, which may be nullable."""
    if not isinstance(declared, Mapping):
        return None
    types = declared.get("type")
    names = {types} if isinstance(types, str) else set(types) if isinstance(types, list) else set()
    names.discard("null")
    if names == {"integer", "number"}:
        return Kind.NUMBER
    if len(names) != 1:
        return None
    (name,) = names
    if name == "string":
        return Kind.TIME if declared.get("format") == "date-time" else Kind.STRING
    return Kind(name) if name in {Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN} else None


def column_names(names: Iterable[str], existing: Sequence[str]) -> dict[str, str]:
    """Return the column of each property: `p_` and its name, or an unambiguous replacement of the name.

    A name gets a replacement with a digest if it has other characters than letters, digits and `_`, if it is
    long, or if it is equal but for case to another column: some engines ignore case.  `existing`: the
    table's columns, whose assignment never changes.
    """
    spelled = {column.casefold(): column for column in existing}
    columns: dict[str, str] = {}
    for name in sorted(names):
        plain = COLUMN_PREFIX + name
        holder = spelled.setdefault(plain.casefold(), plain)
        if holder != plain or not _SAFE_NAME.fullmatch(name):
            columns[name] = _with_digest(name)
        else:
            columns[name] = plain
    return columns


def _with_digest(name: str) -> str:
    readable = re.sub(r"[^A-Za-z0-9]+", "_", name)[:40].strip("_").lower()
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_DIGITS]
    return f"{COLUMN_PREFIX}{readable}_{digest}" if readable else f"{COLUMN_PREFIX}_{digest}"
