"""Tightens the schema of an event type whose table `onramp apply` creates to what its columns accept.

JSON Schema accepts more than Postgres' types of the same meaning: integers beyond 64 bits, nanoseconds, leap
seconds, offsets of 16 hours and more, the year 0.  Such an event would be accepted and then parked.
"""

from collections.abc import Mapping
from typing import Any, Final

from shared.contracts.tables import column_type

_YEAR: Final = "^0{0,3}[1-9]"
_DATE_TIME: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]{1,6}0{0,12})?"
    r"([Zz]|[+-](0[0-9]|1[0-5]):[0-9]{2})$"
)
#: The additional schema of a field's values, by the type of its column.
_LIMITS: Final[Mapping[str, list[dict[str, Any]]]] = {
    "bigint": [{"minimum": -(2**63), "maximum": 2**63 - 1}],
    "date": [{"pattern": _YEAR}],
    "timestamptz": [{"pattern": _YEAR}, {"pattern": _DATE_TIME}],
}


def with_limits(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `schema`, tightened to reject what the columns of its table (`tables.columns_of`) reject."""
    fields = schema.get("properties")
    if not isinstance(fields, Mapping):
        return schema
    return {**schema, "properties": {name: _limited(each) for name, each in fields.items()}}


def _limited(field: Any) -> Any:
    limits = _LIMITS.get(column_type(field))
    if limits is None:
        return field
    given = field.get("allOf", [])
    return {**field, "allOf": [*given, *limits]} if isinstance(given, list) else field
