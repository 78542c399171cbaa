"""JSON Schema's keywords: the types they apply to, and how two of them compare."""

import math
from collections.abc import Mapping
from typing import Any, Final

from shared.contracts.json_values import text_of

#: A number with a fraction is a separate kind: `integer` accepts 1.0, and `number` accepts both.
_TYPES: Final[Mapping[str, frozenset[str]]] = {
    **{name: frozenset({name}) for name in ("null", "boolean", "integer", "string", "array", "object")},
    "number": frozenset({"integer", "fraction"}),
}
ALL: Final = frozenset().union(*_TYPES.values())
_NUMBERS: Final = _TYPES["number"]
#: The kinds of values that a keyword applies to; an unlisted keyword applies to all.
_CONCERNS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _NUMBERS),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), _TYPES["string"]),
    **dict.fromkeys(
        ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains"),
        _TYPES["array"],
    ),
    **dict.fromkeys(("maxContains", "additionalItems", "unevaluatedItems"), _TYPES["array"]),
    **dict.fromkeys(
        ("properties", "patternProperties", "additionalProperties", "required", "minProperties"),
        _TYPES["object"],
    ),
    **dict.fromkeys(
        ("maxProperties", "dependentRequired", "dependentSchemas", "propertyNames", "dependencies"),
        _TYPES["object"],
    ),
    "unevaluatedProperties": _TYPES["object"],
}
#: Annotations without effect on values. Content keywords are not among them: older drafts evaluate them.
_ANNOTATIONS: Final = frozenset(
    {
        "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
        "$comment", "$defs", "definitions", "$schema", "$id",
    }
)  # fmt: skip
LENGTHS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("minLength", "maxLength"), "string"),
    **dict.fromkeys(("minItems", "maxItems"), "array"),
    **dict.fromkeys(("minProperties", "maxProperties"), "object"),
}
BOUNDS: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")


def rules_of(schema: Mapping[str, Any], kinds: frozenset[str] = ALL) -> dict[str, Any]:
    """Return the keywords of `schema` that apply to values of these kinds."""
    return {
        key: value
        for key, value in schema.items()
        if key not in _ANNOTATIONS and not key.startswith("x-") and _CONCERNS.get(key, ALL) & kinds
    }


def is_open(schema: object) -> bool:
    """Return whether every value is accepted."""
    return schema is True or (isinstance(schema, Mapping) and not rules_of(schema))


def kinds_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the kinds of values that `type` accepts: all if it is missing or invalid."""
    named = schema.get("type")
    names = named if isinstance(named, list) else [named]
    known = [_TYPES[name] for name in names if isinstance(name, str) and name in _TYPES]
    return frozenset().union(*known) if len(known) == len(names) else ALL


def type_names(kinds: frozenset[str]) -> str:
    """Return the kinds as text for messages."""
    names = {"number" if kind == "fraction" else kind for kind in kinds}
    return " or ".join(sorted(names - ({"integer"} if "number" in names else set())))


def kind_of(value: object) -> str:
    """Return the kind of a JSON value."""
    if isinstance(value, float) and not value.is_integer():
        return "fraction"
    python = {bool: "boolean", int: "integer", float: "integer", str: "string", list: "array", dict: "object"}
    return python.get(type(value), "null")


def listed(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the values that `schema` lists as the only ones, by their text; None if it lists none."""
    if "const" in schema:
        values = [schema["const"]]
    elif isinstance(schema.get("enum"), list):
        values = schema["enum"]
    else:
        return None
    kinds = kinds_of(schema)
    return {_text(value): value for value in values if kind_of(value) in kinds}


def _text(value: object) -> str:
    return text_of(int(value) if isinstance(value, float) and value.is_integer() else value)


def number(schema: Mapping[str, Any], key: str) -> int | float | None:
    """Return a keyword's number; None if it is missing or not a number."""
    value = schema.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def bound(schema: Mapping[str, Any], *, lower: bool, whole: bool) -> tuple[int | float, bool]:
    """Return the lower (or negated upper) bound of numbers, and whether it is exclusive.

    `whole`: the bound of integers, for which more than 0 means at least 1. Without a bound: minus infinity.
    """
    names = ("minimum", "exclusiveMinimum") if lower else ("maximum", "exclusiveMaximum")
    found: list[tuple[int | float, bool]] = [(-math.inf, False)]
    for name, exclusive in zip(names, (False, True), strict=True):
        limit = number(schema, name)
        if limit is not None:
            limit = limit if lower else -limit
            if whole:
                found.append((math.floor(limit) + 1 if exclusive else math.ceil(limit), False))
            else:
                found.append((limit, exclusive))
    return max(found)


class Taker:
    """Checks whether a schema accepts single values."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._listed = {
            key: listed({"enum": [], key: schema[key]}) or {} for key in ("enum", "const") if key in schema
        }

    def takes(self, value: Any) -> bool | None:
        """Return whether it accepts `value`; None if it has keywords that are not evaluated here."""
        kinds = frozenset({kind_of(value)})
        verdicts = [self._rule_takes(key, value) for key in rules_of(self._schema, kinds)]
        return False if False in verdicts else None if None in verdicts else True

    def _rule_takes(self, key: str, value: Any) -> bool | None:
        if key == "type":
            return kind_of(value) in kinds_of(self._schema)
        if key in self._listed:
            return _text(value) in self._listed[key]
        limit = number(self._schema, key)
        if limit is not None and key in LENGTHS:
            return len(value) >= limit if key.startswith("min") else len(value) <= limit
        if limit is not None and key in BOUNDS:
            return _is_within(key, limit, value)
        return None


def _is_within(key: str, limit: float, value: float) -> bool:
    if key in BOUNDS[2:]:
        value, limit = -value, -limit
    return value > limit if key.startswith("exclusive") else value >= limit
