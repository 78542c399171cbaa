"""Lists the faults of a payload by its schema: each place, without values of the payload.

The library's messages repeat values, so these messages use the schema's keywords alone.
"""

import difflib
import itertools
from collections.abc import Collection, Mapping
from typing import Any, Final

import jsonschema_rs

from shared.contracts.json_schema import CompiledSchema

#: Maximum number of reported faults per event.
_MAX_FAULTS: Final = 50
#: For larger events only the first fault is reported.
_MAX_BYTES: Final = 16 * 1024
#: Maximum number of named unknown fields, and of characters of known names searched for similar ones.
_MAX_EXTRA: Final = 10
_MAX_CHARACTERS: Final = 4096
_PAYLOAD: Final = "/payload"
_UNPLACED: Final = "does not satisfy the schema; the event has too many values to find the place"
#: Keywords whose value in the schema describes the expected value and is safe to repeat.
_SAFE_KEYWORDS: Final = frozenset(
    {
        "type", "format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
        "maxProperties", "uniqueItems",
    }
)  # fmt: skip


def faults(schema: CompiledSchema, payload: Any, size: int) -> list[dict[str, str]]:
    """Return each fault of an invalid payload: `pointer` into the event, and `detail`.

    For a large event (`size` in bytes) or a costly schema, return only the first: finding all takes long.
    If alternatives could have too many faults, return one without its place: the first fault repeats them.
    """
    found = [_fault(error, schema.document) for error in _errors(schema, payload, size)]
    return found or [{"pointer": _PAYLOAD, "detail": _UNPLACED}]


def _errors(schema: CompiledSchema, payload: Any, size: int) -> list[Any]:
    # The library builds the list of all faults at once, and with a fault of `anyOf` and `oneOf` those of each
    # alternative, each with a copy of the value: 450,000 take 5 s and 0.8 GB, and no other thread runs.
    has_many = schema.cost.has_many_faults(payload, size)
    if size <= _MAX_BYTES and not has_many:
        return list(itertools.islice(schema.validator.iter_errors(payload), _MAX_FAULTS))
    if has_many and schema.cost.has_alternatives:
        return []
    try:
        schema.validator.validate(payload)
    except jsonschema_rs.ValidationError as first:
        return [first]
    raise AssertionError("the payload is not valid and has no fault")


def _fault(error: Any, schema: Mapping[str, Any]) -> dict[str, str]:
    pointer = _PAYLOAD + "".join(f"/{_escaped(part)}" for part in error.instance_path)
    *path, keyword = error.schema_path or [""]
    return {"pointer": pointer, "detail": _detail(str(keyword), _subschema(schema, path), error)}


def _detail(keyword: str, subschema: Any, error: Any) -> str:
    subschema = subschema if isinstance(subschema, Mapping) else {}
    fields = subschema.get("properties")
    known = list(fields) if isinstance(fields, Mapping) else []
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.FalseSchema):
        # Only `additionalProperties: false` has no place of its own; a field may have a keyword's name.
        is_of_fields = keyword == "additionalProperties" and list(error.instance_path)[-1:] != [keyword]
        return f"no {'field' if is_of_fields else 'value'} is allowed here"
    if keyword == "required":
        missing = error.kind.property
        return f"the field {missing} is missing{_suggestion(missing, error.instance)}"
    if keyword == "additionalProperties":
        extra = error.kind.unexpected
        named = [
            f"the field {name:.70} is not known{_suggestion(name, known)}" for name in extra[:_MAX_EXTRA]
        ]
        more = [f"and {len(extra) - _MAX_EXTRA} more"] if len(extra) > _MAX_EXTRA else []
        return "; ".join(named + more)
    if keyword in _SAFE_KEYWORDS:
        return f"expected {keyword} {subschema.get(keyword)}"
    return f"does not satisfy {keyword or 'the schema'}"


def _suggestion(name: str, names: Collection[str]) -> str:
    # The comparison's time is the product of the lengths.
    if len(name) + sum(map(len, names)) > _MAX_CHARACTERS:
        return ""
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _subschema(schema: Any, path: list[Any]) -> Any:
    for part in path:
        schema = schema[int(part)] if isinstance(schema, list) else schema.get(part, {})
    return schema


def _escaped(part: object) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")
