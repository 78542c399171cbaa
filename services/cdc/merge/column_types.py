"""The encoding of each column type in a change, as SQL that decodes it to a value.

The encodings are those of Debezium's Postgres connector with decimals as strings, times as adaptive
microseconds and bytes as hex.  A type that Debezium can only send as the bytes of its text is decoded as
such. A type without a safe decoding is rejected by name.
"""

import re
from typing import Final, NamedTuple

from psycopg2 import sql

#: `j` stands for the JSON value, `t` for its text.
_PLAIN: Final = "({t})::{type}"
#: The connector has its own names for a numeric's infinities.
_NUMBER: Final = (
    "(CASE {t} WHEN 'POSITIVE_INFINITY' THEN 'Infinity' WHEN 'NEGATIVE_INFINITY' THEN '-Infinity'"
    " ELSE {t} END)::{type}"
)
#: Days outside the range of Postgres' dates are infinite.  A snapshot encodes both infinities below the first
#: date: infinity as about -622191234, -infinity as -625821272.
_DAYS: Final = (
    "(CASE WHEN ({t})::int8 BETWEEN -2440588 AND 2145042905 THEN date '1970-01-01' + ({t})::int4"
    " WHEN ({t})::int8 > 0 OR ({t})::int8 BETWEEN -622191300 AND -622191200 THEN 'infinity'"
    " WHEN ({t})::int8 < 0 THEN '-infinity' END)"
)
#: Microseconds end in the year 294247.  Later timestamps arrive as the largest number, which is infinity, or,
#: with a fraction of a second, as a number that has overflowed by less than a second.
_SINCE_1970: Final = (
    "(CASE WHEN jsonb_typeof({j}) <> 'number' THEN ({t})::{type}"
    " WHEN ({t})::int8 >= 9223372036825200000"
    " OR ({t})::int8 BETWEEN -9223372036854775807 AND -9223372036853775808 THEN 'infinity'"
    " WHEN ({t})::int8 <= -9223372036832400000 THEN '-infinity'"
    " ELSE (date '1970-01-01' + (({t})::int8 / {day})::int4)"
    " + (({t})::int8 % {day}) * interval '1 {unit}' END)::{type}"
)
#: Years are those of ISO 8601: with a sign beyond 9999, and 0 is the year 1 BC.  A driver encodes infinity as
#: a year of nine digits.
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
#: The text of a value of these types never consists of pairs of hexadecimal digits only.
_HEX_OF_TEXT: Final = (
    "(CASE WHEN ({t}) ~ '^([0-9a-f]{{2}})+$' THEN convert_from(decode({t}, 'hex'), 'UTF8')"
    " ELSE {t} END)::{type}"
)
_ARRAY: Final = (
    "(CASE jsonb_typeof({j}) WHEN 'array' THEN coalesce((SELECT array_agg({element} ORDER BY a.n)"
    " FROM jsonb_array_elements({j}) WITH ORDINALITY a (e, n)), '{{}}') END)::{type}"
)
_MAX_MILLISECONDS: Final = 3
#: An update marks an unchanged large array only for these element types. For others, and for a column whose
#: type is a domain over an array, it has NULL.
_MARKED_IN_ARRAYS: Final = frozenset(
    ["text", "character", "json", "jsonb", "integer", "bigint", "date", "uuid"]
) | {"character varying"}
#: The suffix of an array's type where the source's column has a domain over it.
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
#: Types that Debezium does not know, and sends as the bytes of their text.
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
#: A type of the source's own, by its name with its schema; its kind follows unless it is an enumeration.
_OWN: Final = re.compile(r'(?:"(?:[^"]|"")+"|[^". ]+)\..+?(?: \((?P<kind>composite|range|opaque)\))?')
#: A shape decodes to several kinds of objects, and an open path arrives as a closed one.
_REFUSED: Final = frozenset(["bit varying", "varbit", "line", "lseg", "box", "path", "polygon", "circle"])
#: Debezium omits columns of arrays of the first type. An array of times comes in milliseconds. The others are
#: null if an element is null.
_REFUSED_IN_ARRAYS: Final = frozenset(["bit", "interval", "money", "name", "point", "xml"]) | (
    {"time", "tsvector"} | _UNKNOWN_TYPES
)


#: The suffix of a type that may be mistaken for another one.
AMBIGUOUS: Final = " (ambiguous)"


class UnsupportedTypeError(Exception):
    """A type whose values cannot be decoded from changes."""


def is_silent(declared: str) -> bool:
    """Return whether an update has NULL for an unchanged large value (TOAST) of this type."""
    of = declared.removesuffix(_OF_A_DOMAIN)
    element = of.removesuffix("[]")
    return element != of and (of != declared or element.partition("(")[0] not in _MARKED_IN_ARRAYS)


class ColumnType(NamedTuple):
    """`declared`: the public column's type; `template`: the SQL that decodes its value."""

    declared: str
    template: str

    def value(self, of: sql.Composable, place: str | int) -> sql.Composable:
        """Return SQL for the value at `place` in the JSON expression `of`; NULL if null or missing."""
        at = sql.Literal(place)
        json, text = sql.SQL("({} -> {})").format(of, at), sql.SQL("({} ->> {})").format(of, at)
        return sql.SQL(self.template).format(j=json, t=text, type=sql.SQL(self.declared))


def column_type(declared: str) -> ColumnType:
    """Return the published column for a source's column whose type `format_type` calls `declared`.

    A type of the source's own (an enumeration or a composite) is published as text; its kind follows its
    name (services/cdc/agent/source_sql.py).  Raises `UnsupportedTypeError`.
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
    loses_its_zone = base == "time" and match["zone"] == " with time zone"  # the value arrives in UTC
    if base in _REFUSED or loses_its_zone or (base == "bit" and modifier not in ("", "1")):
        raise UnsupportedTypeError(declared)
    if (template := _template(base, modifier, match["zone"] or "")) is None:
        raise UnsupportedTypeError(declared)
    return ColumnType(declared, template)


def _template(base: str, modifier: str, zone: str) -> str | None:
    special = {"date": _DAYS, "bytea": _HEX, "point": _POINT, "bit": _BIT}
    if not modifier:
        special["numeric"] = _NUMBER  # a type with a precision has no infinity
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
