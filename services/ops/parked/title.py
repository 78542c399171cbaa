"""The title of a group of parked events: its cause in the words of the sender, without values.

The sentence (`outcome_sentence`) has every field of the cause; a title is read in a list.
"""

from collections.abc import Mapping
from typing import Final

from services.ops.parked.fingerprint import OTHERS, Cause
from shared.errors import TABLE, UNKNOWN_TABLE

#: Words for a value that a column's type accepts, by the start of the type's name.
_KINDS: Final = (
    (("smallint", "integer", "bigint"), "a whole number"),
    (("numeric", "decimal", "real", "double", "float", "money"), "a number"),
    (("bool",), "true or false"),
    (("timestamp",), "a date and time"),
    (("date",), "a date"),
    (("time",), "a time of day"),
    (("interval",), "a duration"),
    (("uuid",), "a UUID"),
    (("json",), "valid JSON"),
    (("inet", "cidr", "macaddr"), "a network address"),
    (("bytea",), "bytes in hexadecimal"),
    (("text", "character", "varchar", "citext"), "a text"),
)
_ARTICLES: Final = {"null": "null", "absent": "absent", "array": "an array", "object": "an object"}
#: Titles by SQLSTATE; the names are texts of `_names`.
_STATES: Final[Mapping[str, str]] = {
    "22P02": "{column} is not {kind}",
    "22P03": "{column} is not {kind}",
    "42804": "{column} is {json_type}, and not {kind}",
    "22003": "{column} is a number that is too large or too exact for {type}",
    "22001": "{column} is longer than {type} allows",
    "22007": "{column} is not {kind}",
    "22008": "{column} is a date or a time that does not exist",
    "22021": "{column} has characters that the database cannot store",
    "22P05": "{column} has characters that the database cannot store",
    "22023": "{column} has a value that the database does not accept",
    "22012": "{column} leads to a division by zero",
    "2202E": "{column} is an array of unequal lengths",
    "22030": "{column} has a JSON object with a repeated name",
    "22032": "{column} is not valid JSON",
    "22000": "{column} is not valid data",
    "23502": "{column} is missing or null",
    "23505": "{place} has this value already",
    "23503": "{place} refers to a row that does not exist",
    "23514": "{place} is violated",
    "23P01": "{place} excludes this value",
    "42703": "{column} is a field without a column in {table}",
    "428C9": "{column} is a column that {table} generates",
    "42501": "The writer may not write {table}",
    "42P01": "A function of {table} uses a name that is absent or needs its schema",
    "42883": "A function of {table} uses a name that is absent or needs its schema",
    "54000": "The event is too large for {table}",
    "54011": "The event has too many fields for {table}",
    "P0001": "A trigger of {table} refuses the event",
    "44000": "A view's condition refuses the event in {table}",
    "0A000": "{table} does not support this write",
}
#: Titles by error code, for errors without a SQLSTATE above.
_CODES: Final[Mapping[str, str]] = {
    "no_envelope": "The record is neither an envelope nor a packet",
    "not_a_change": "The record is not a change of a table",
    "record_headers_too_large": "The record's headers are too large",
    "unknown_database": "{table} is in a database that is not configured",
    "unsupported_destination": "{table} is of a type that is not supported",
    "bad_destination": "The packet's destinations cannot be read",
    "forbidden_destination": "Packets of this topic may not address {table}",
    "not_routed": "{event} is no longer routed to {table}",
    "ambiguous_table": "{event} belongs to several tables now",
    "unknown_table": "{table} does not exist",
    "unsuitable_table": "{table} cannot store each event exactly once",
    "unknown_field": "{column} is a field without a column in {table}",
    "row_suppressed": "{table} accepted the event and did not store it",
    "data_rejected": "{table} refuses the event's values",
    "id_reuse": "Another event landed under the same id",
    "no_permission": "The writer may not write {table}",
    "dead_lettered": "An operator parked the events that waited for {table}",
    "database_retired": "{table} was in a database that an operator retired",
    "transform_failed": "The function raised {exception}",
    "internal_sort": "The writer failed while sorting the event",
    "internal_persist": "The writer failed while writing the event's row",
    OTHERS.code or "": "Further causes",
}
#: Maximum characters of a name in a title; clients choose names.
_LONGEST: Final = 80


def title_of(cause: Cause, column_type: str | None = None) -> str:
    """Return the title of a cause: a phrase of one line, without a full stop.

    `column_type`: the declared type of the cause's column, if it is known.
    """
    of_state = _STATES.get(cause.sqlstate or "") if cause.code != UNKNOWN_TABLE.code else None
    form = of_state or _CODES.get(cause.code or "")
    if form is None:
        fault = TABLE.get(cause.code or "")
        return fault.title.rstrip(".") if fault else f"Error {_short(cause.code or 'without a code')}"
    return form.format_map(_names(cause, column_type))


def _names(cause: Cause, column_type: str | None) -> dict[str, str]:
    pointed = cause.place if cause.place and cause.place.startswith("/") else None
    constraint = cause.place if cause.place and not pointed else None
    field = cause.column or pointed
    return {
        "column": f"`{_short(field)}`" if field else "A value",
        "kind": _kind(column_type),
        "type": f"its type {_short(column_type)}" if column_type else "its column",
        "json_type": _json_type(cause.json_type),
        "exception": f"`{_short(constraint)}`" if constraint else "an exception",
        "place": f"The constraint `{_short(constraint)}`" if constraint else "A constraint",
        "table": f"`{_short(cause.destination)}`" if cause.destination else "The table",
        "event": f"`{_short(cause.event_name)}`" if cause.event_name else "The event",
    }


def _kind(column_type: str | None) -> str:
    if not column_type:
        return "a value of its column's type"
    if column_type.endswith("[]"):
        return f"an array of the type {_short(column_type.removesuffix('[]'))}"
    base = column_type.lower()
    found = next((words for starts, words in _KINDS if base.startswith(starts)), None)
    return found or f"a value of the type {_short(column_type)}"


def _json_type(json_type: str | None) -> str:
    if json_type is None:
        return "of another type"
    return _ARTICLES.get(json_type) or f"a{'n' if json_type[0] in 'aio' else ''} {json_type}"


def _short(name: str) -> str:
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}…"
