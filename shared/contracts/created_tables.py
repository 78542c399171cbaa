"""Tightens the schema of an event type whose table `onramp apply` creates to what its columns accept.

JSON Schema accepts more than Postgres' types of the same meaning: integers beyond 64 bits, nanoseconds, leap
seconds, offsets of 16 hours and more, the year 0, times that are outside of the years 1 to 9999 in UTC.  Such
an event would be accepted and then parked.
"""

from collections.abc import Mapping
from typing import Any, Final

from shared.contracts.keywords import rules_of
from shared.contracts.object_fields import fields_of, is_beside_ref
from shared.contracts.tables import field_type

_YEAR: Final = "^0{0,3}[1-9]"
_DATE_TIME: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]{1,6}0{0,12})?"
    r"([Zz]|[+-](0[0-9]|1[0-5]):[0-9]{2})$"
)
#: Hours of an offset.
_OFFSETS: Final = range(16)
#: Minutes of an offset that is not a number of hours: they count as a whole hour.
_PART: Final = "(0[1-9]|[1-5][0-9])"


def _not_after_9999() -> dict[str, Any]:
    """Return a schema that rejects times of the last day whose UTC instant is on the next one."""
    return _rejected("9999-12-31", "-", {h: (24 - h, 23 - h) for h in range(8, 24)})


def _not_before_1() -> dict[str, Any]:
    """Return a schema that rejects times of the first day whose UTC instant is on the day before."""
    return _rejected("0001-01-01", "[+]", {h: (h + 1, h) for h in _OFFSETS})


def _rejected(day: str, sign: str, offsets: Mapping[int, tuple[int, int]]) -> dict[str, Any]:
    """`offsets`: by hour of the day, the first rejected offset, and the one rejected with any minutes."""
    hours = []
    for hour, (first, partial) in offsets.items():
        whole = "".join(f"|{each:02}" for each in _OFFSETS if each >= first)
        hours.append(f"{hour:02}[0-9:.]{{6,24}}{sign}({partial:02}:{_PART}{whole})")
    return {"not": {"type": "string", "pattern": f"^{day}.({'|'.join(hours)})"}}


#: The additional schema of a field's values, by the type of its column.
_LIMITS: Final[Mapping[str, list[dict[str, Any]]]] = {
    "bigint": [{"minimum": -(2**63), "maximum": 2**63 - 1}],
    "date": [{"pattern": _YEAR}],
    "timestamptz": [{"pattern": _YEAR}, {"pattern": _DATE_TIME}, _not_after_9999(), _not_before_1()],
}


def with_limits(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `schema`, tightened to reject what the columns of its table (`tables.columns_of`) reject."""
    limits = {name: _LIMITS.get(field_type(each)) for name, each in fields_of(schema).items()}
    limited = {name: {"allOf": each} for name, each in limits.items() if each}
    if not limited:
        return schema
    more = {"properties": limited}
    if "$ref" in schema and not is_beside_ref(schema):
        rules = rules_of(schema)
        rest = {name: value for name, value in schema.items() if name not in rules}
        return {**rest, "allOf": [{"$ref": schema["$ref"]}, more]}
    given = schema.get("allOf", [])
    return {**schema, "allOf": [*given, more]} if isinstance(given, list) else schema
