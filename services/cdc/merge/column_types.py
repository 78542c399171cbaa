"""How each type of a source's column is written in a change, as SQL that makes a value of it again.

By Debezium's documentation of its Postgres connector with decimals as strings, times as adaptive
microseconds and bytes as hex.  A type that it can only send as the bytes of its text is read so.  What
cannot be made a value again is refused by name, never guessed.
"""

import re
from typing import Final, NamedTuple

from psycopg2 import sql

#: `j` stands for the JSON value, `t` for its text.
_PLAIN: Final = "({t})::{type}"
#: A numeric's infinities have names of the connector's own.
_NUMBER: Final = (
    "(CASE {t} WHEN 'POSITIVE_INFINITY' THEN 'Infinity' WHEN 'NEGATIVE_INFINITY' THEN '-Infinity'"
    " ELSE {t} END)::{type}"
)
#: Days that no date of Postgres has are infinite.  A snapshot has both below the first date: about -622191234
#: for infinity, -625821272 for the other one.
_DAYS: Final = (
    "(CASE WHEN ({t})::int8 BETWEEN -2440588 AND 2145042905 THEN date '1970-01-01' + ({t})::int4"
    " WHEN ({t})::int8 > 0 OR ({t})::int8 BETWEEN -622191300 AND -622191200 THEN 'infinity'"
    " WHEN ({t})::int8 < 0 THEN '-infinity' END)"
)
#: Microseconds end in the year 294247.  Later timestamps arrive as the largest number, which is infinity, or
#: with a fraction of a second as one that has overflowed by less than a second.
_SINCE_1970: Final = (
    "(CASE WHEN jsonb_typeof({j}) <> 'number' THEN ({t})::{type}"
    " WHEN ({t})::int8 >= 9223372036825200000"
    " OR ({t})::int8 BETWEEN -9223372036854775807 AND -9223372036853775808 THEN 'infinity'"
    " WHEN ({t})::int8 <= -9223372036832400000 THEN '-infinity'"
    " ELSE (date '1970-01-01' + (({t})::int8 / {day})::int4)"
    " + (({t})::int8 % {day}) * interval '1 {unit}' END)::{type}"
)
#: Years are those of ISO 8601: with a sign beyond 9999, and 0 is the year 1 BC.  The years that a driver has
#: for infinity have nine digits.
_ZONED: Final = (
    "(CASE WHEN left({t}, 1) NOT IN ('+', '-') AND left({t}, 5) <> '0000-' THEN ({t})::{type}"
    " WHEN ({t}) ~ '^[+][0-9]{{9}}' THEN 'infinity' WHEN ({t}) ~ '^-[0-9]{{9}}' THEN '-infinity'"
    " WHEN left({t}, 1) = '+' THEN substr({t}, 2)::{type}"
    " WHEN ({t}) ~ '^-?[0-9]' THEN (lpad(((regexp_match({t}, '^-?([0-9]+)'))[1]::int4 + 1)::text, 4, '0')"
    " || regexp_replace({t}, '^-?[0-9]+', '') || ' BC')::{type}"
    " ELSE ({t})::{type} END)"
)
_TIME: Final = (
    "(CASE WHEN jsonb_typeof({j}) <> 'number' THEN ({t})::{type} WHEN ({t})::int8 = 86400000000 THEN '24:00'"
    " ELSE (time '00:00' + ({t})::int8 * interval '1 microsecond') END)::{type}"
)
_INTERVAL: Final = (
    "(CASE jsonb_typeof({j}) WHEN 'number' THEN ({t})::float8 * interval '1 microsecond'"
    " ELSE ({t})::interval END)::{type}"
)
_POINT: Final = "point(({j} ->> 'x')::float8, ({j} ->> 'y')::float8)"
_BIT: Final = "(CASE {t} WHEN 'true' THEN B'1' WHEN 'false' THEN B'0' END)::{type}"
_HEX: Final = "decode({t}, 'hex')"
#: Of none of these types is a text nothing but pairs of hexadecimal digits.
_HEX_OF_TEXT: Final = (
    "(CASE WHEN ({t}) ~ '^([0-9a-f]{{2}})+$' THEN convert_from(decode({t}, 'hex'), 'UTF8')"
    " ELSE {t} END)::{type}"
)
_ARRAY: Final = (
    "(CASE jsonb_typeof({j}) WHEN 'array' THEN coalesce((SELECT array_agg({element} ORDER BY a.n)"
    " FROM jsonb_array_elements({j}) WITH ORDINALITY a (e, n)), '{{}}') END)::{type}"
)
_MAX_MILLISECONDS: Final = 3
#: Of arrays of these alone an update says that it left a large one alone; of others, and where the column's
#: type is a domain over an array, it has NULL then.
_MARKED_IN_ARRAYS: Final = frozenset(
    ["text", "character", "json", "jsonb", "integer", "bigint", "date", "uuid"]
) | {"character varying"}
#: What stands behind the type of an array where the source's column has a domain over it.
_OF_A_DOMAIN: Final = " (domain)"
_PLAIN_TYPES: Final = frozenset(
    [
        "smallint",
        "integer",
        "bigint",
        "real",
        "numeric",
        "boolean",
        "text",
        "character",
        "name",
        "uuid",
        "json",
        "jsonb",
        "xml",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "money",
        "oid",
        "int4range",
        "int8range",
        "numrange",
        "tsrange",
        "tstzrange",
        "daterange",
        "tsvector",
        "bpchar",
        '"char"',
    ]
) | {"double precision", "character varying"}
#: Those whose bytes of text Debezium sends, as types that it does not know.
_UNKNOWN_TYPES: Final = frozenset(
    [
        "tsquery",
        "pg_lsn",
        "jsonpath",
        "int4multirange",
        "int8multirange",
        "nummultirange",
        "tsmultirange",
        "tstzmultirange",
        "datemultirange",
    ]
)
_TYPE: Final = re.compile(
    r'(?P<base>[a-z0-9_]+(?: [a-z]+)*?|"char")(?:\((?P<mod>[^()]*)\))?(?P<zone> with(?:out)? time zone)?'
)
#: A type of the source's own, by its name with its schema; what it is of where it is no enumeration.
_OWN: Final = re.compile(r'(?:"(?:[^"]|"")+"|[^". ]+)\..+?(?: \((?P<kind>composite|range|opaque)\))?')
#: Shapes come as several kinds of objects, and an open path as a closed one.
_REFUSED: Final = frozenset(["bit varying", "varbit", "line", "lseg", "box", "path", "polygon", "circle"])
#: Of columns of arrays of the first Debezium says nothing at all; one of times comes in milliseconds, and one
#: of the others as null if an element is.
_REFUSED_IN_ARRAYS: Final = frozenset(["bit", "interval", "money", "name", "point", "xml"]) | (
    {"time", "tsvector"} | _UNKNOWN_TYPES
)


#: What stands behind a type that may be taken for another one.
AMBIGUOUS: Final = " (ambiguous)"


class UnsupportedTypeError(Exception):
    """No value of this type can be made of its changes."""


def is_silent(declared: str) -> bool:
    """Whether an update that leaves a large value of this type alone (TOAST) says no more than NULL."""
    of = declared.removesuffix(_OF_A_DOMAIN)
    element = of.removesuffix("[]")
    return element != of and (of != declared or element.partition("(")[0] not in _MARKED_IN_ARRAYS)


class ColumnType(NamedTuple):
    """`declared`: the public column's type; `template`: how its value is made."""

    declared: str
    template: str

    def value(self, of: sql.Composable, place: str | int) -> sql.Composable:
        """Return SQL for the value at `place` in the JSON that `of` is SQL of; NULL for a null, none."""
        at = sql.Literal(place)
        json, text = sql.SQL("({} -> {})").format(of, at), sql.SQL("({} ->> {})").format(of, at)
        return sql.SQL(self.template).format(j=json, t=text, type=sql.SQL(self.declared))


def column_type(declared: str) -> ColumnType:
    """Return how a source's column is published whose type `format_type` calls `declared`.

    A type of the source's own (an enumeration, a composite one) is published as text, and has what it is
    behind its name (services/cdc/agent/source_sql.py).  Raises `UnsupportedTypeError`.
    """
    declared = declared.removesuffix(_OF_A_DOMAIN)
    if declared.endswith(AMBIGUOUS):
        raise UnsupportedTypeError(declared)
    if declared.endswith("[]"):
        return _array(declared)
    if own := _OWN.fullmatch(declared):
        if own["kind"] == "opaque":
            raise UnsupportedTypeError(declared)
        return ColumnType("text", _HEX_OF_TEXT if own["kind"] else _PLAIN)
    match = _TYPE.fullmatch(declared)
    if match is None:
        raise UnsupportedTypeError(declared)
    base, modifier = match["base"], match["mod"] or ""
    loses_its_zone = base == "time" and match["zone"] == " with time zone"  # it comes in UTC
    if base in _REFUSED or loses_its_zone or (base == "bit" and modifier not in ("", "1")):
        raise UnsupportedTypeError(declared)
    if (template := _template(base, modifier, match["zone"] or "")) is None:
        raise UnsupportedTypeError(declared)
    return ColumnType(declared, template)


def _template(base: str, modifier: str, zone: str) -> str | None:
    special = {"date": _DAYS, "bytea": _HEX, "point": _POINT, "bit": _BIT}
    if not modifier:
        special["numeric"] = _NUMBER  # with a precision there is no infinity
    if base in special:
        return special[base]
    if base == "timestamp":
        return _ZONED if zone == " with time zone" else _since_1970(modifier)
    if base == "time":
        return _TIME
    if base.split(maxsplit=1)[0] == "interval":
        return _INTERVAL
    if base in _UNKNOWN_TYPES:
        return _HEX_OF_TEXT
    return _PLAIN if base in _PLAIN_TYPES else None


def _since_1970(modifier: str) -> str:
    in_ms = modifier != "" and int(modifier) <= _MAX_MILLISECONDS
    day, unit = ("86400000", "millisecond") if in_ms else ("86400000000", "microsecond")
    return _SINCE_1970.replace("{day}", day).replace("{unit}", unit)


def _array(declared: str) -> ColumnType:
    of = declared.removesuffix("[]")
    element = column_type(of)
    if element.declared.endswith("[]") or of.replace("(", " ").split(" ")[0] in _REFUSED_IN_ARRAYS:
        raise UnsupportedTypeError(declared)
    of_element = element.template.replace("{j}", "a.e").replace("{t}", "(a.e #>> '{{}}')")
    of_element = of_element.replace("{type}", element.declared)
    return ColumnType(f"{element.declared}[]", _ARRAY.replace("{element}", of_element))
