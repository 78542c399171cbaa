"""JSON Schemas of event types: compiled when they change; an error has every fault of the payload.

The library's messages repeat values, so ours are made from the schema's keywords alone.
"""

import difflib
import itertools
from collections.abc import Collection, Mapping
from typing import Any, Final

import jsonschema_rs
import orjson

from shared.contracts.json_schema import compile_schema
from shared.errors import SCHEMA_MISMATCH, UserError
from shared.registry import Snapshot

#: So many faults of one event, and of all events of a request together, are reported.
_MOST_FAULTS: Final = 50
MOST_REPORTED: Final = 100
#: Of larger events only the first fault is reported.
_MOST_BYTES: Final = 16 * 1024
#: So many unknown fields are named; in so many characters of known names a similar one is searched.
_MOST_EXTRA: Final = 10
_MOST_CHARACTERS: Final = 4096
_PAYLOAD: Final = "/payload"
#: Keywords whose value in the schema says what was expected and is safe to repeat.
_SAFE_KEYWORDS: Final = frozenset(
    {
        "type", "format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
        "maxProperties", "uniqueItems",
    }
)  # fmt: skip


class SchemaMismatchError(UserError):
    """The payload breaks its schema: each of `faults` has a pointer and a detail."""

    def __init__(self, faults: list[dict[str, str]]) -> None:
        super().__init__(SCHEMA_MISMATCH, faults[0]["detail"], faults[0]["pointer"])
        self.faults = faults


class ReportedFaults:
    """Counts the faults that were reported for the events of one request."""

    def __init__(self) -> None:
        self.faults = 0


class Schemas:
    """The compiled schemas of one snapshot."""

    def __init__(self, snapshot: Snapshot, before: "Schemas | None" = None) -> None:
        """Compile every event type's schema, except those that are compiled `before`: each takes 0.1 to 1 ms.

        Raises:
            ValueError: one is no JSON Schema; the message names its event type.
        """
        self.snapshot = snapshot
        self._validators: dict[str, Any] = {}
        self._schemas: dict[str, Mapping[str, Any]] = {}
        #: By the schema as text: of two that Python calls equal, one may have `true` where the other has 1.
        self._by_text: dict[bytes, Any] = {}
        known = before._by_text if before else self._by_text  # noqa: SLF001 - its own class
        for name, event_type in snapshot.event_types.items():
            if event_type.json_schema is not None:
                text = orjson.dumps(event_type.json_schema)
                validator = known.get(text) or _compiled(name, event_type.json_schema)
                self._validators[name] = self._by_text[text] = validator
                self._schemas[name] = event_type.json_schema

    def check(self, event_name: str, document: Any, size: int, reported: ReportedFaults) -> None:
        """Raise `UserError` SCHEMA_MISMATCH when the event type has a schema and the payload breaks it.

        The error has every fault, unless to find them all would take long: in an event of many
        bytes (`size`), or after many faults of other events (`reported`).
        """
        validator = self._validators.get(event_name)
        if validator is None or validator.is_valid(document["payload"]):
            return
        if reported.faults >= MOST_REPORTED:
            raise UserError(SCHEMA_MISMATCH, "other events of the batch say more", _PAYLOAD)
        schema = self._schemas[event_name]
        faults = [_fault(error, schema) for error in _errors(validator, document["payload"], size)]
        reported.faults += len(faults)
        raise SchemaMismatchError(faults)


def _errors(validator: Any, payload: Any, size: int) -> list[Any]:
    # The library builds the list of all faults at once, each with a copy of the value: with 60,000
    # fields and 20 missing ones that takes 1 s, in which no other thread runs.
    if size <= _MOST_BYTES:
        return list(itertools.islice(validator.iter_errors(payload), _MOST_FAULTS))
    try:
        validator.validate(payload)
    except jsonschema_rs.ValidationError as first:
        return [first]
    raise AssertionError("the payload is not valid and has no fault")


class Compiler:
    """Compiles a registry's schemas where it is read, off the event loop and before it is in force."""

    def __init__(self) -> None:
        #: The last one first, and the one before: it is in force until the last one is.
        self._kept: tuple[Schemas, ...] = ()

    def __call__(self, snapshot: Snapshot) -> None:
        """Compile the schemas that changed.  Raises `ValueError` if one does not compile."""
        last = self._kept[:1]
        self._kept = (Schemas(snapshot, *last), *last)

    def for_snapshot(self, snapshot: Snapshot) -> Schemas:
        """Return the schemas of `snapshot`, compiled now unless the registry was read here."""
        kept = self._kept
        return next((each for each in kept if each.snapshot is snapshot), None) or Schemas(snapshot)


def check_schemas(snapshot: Snapshot) -> None:
    """Raise `ValueError` unless every schema compiles."""
    Schemas(snapshot)


def _compiled(name: str, schema: Mapping[str, Any]) -> Any:
    try:
        return compile_schema(schema)
    except ValueError as e:
        raise ValueError(f"event_types.{name}.schema: {e}") from None


def _fault(error: Any, schema: Mapping[str, Any]) -> dict[str, str]:
    pointer = _PAYLOAD + "".join(f"/{_escaped(part)}" for part in error.instance_path)
    *path, keyword = error.schema_path or [""]
    return {"pointer": pointer, "detail": _detail(str(keyword), _subschema(schema, path), error)}


def _detail(keyword: str, subschema: Any, error: Any) -> str:
    subschema = subschema if isinstance(subschema, Mapping) else {}
    known = list(subschema.get("properties", {}))
    if keyword == "required":
        missing = error.kind.property
        return f"the field {missing} is missing{_suggestion(missing, error.instance)}"
    if keyword == "additionalProperties":
        extra = error.kind.unexpected
        named = [
            f"the field {name:.70} is not known{_suggestion(name, known)}" for name in extra[:_MOST_EXTRA]
        ]
        more = [f"and {len(extra) - _MOST_EXTRA} more"] if len(extra) > _MOST_EXTRA else []
        return "; ".join(named + more)
    if keyword in _SAFE_KEYWORDS:
        return f"expected {keyword} {subschema.get(keyword)}"
    return f"does not satisfy {keyword or 'the schema'}"


def _suggestion(name: str, names: Collection[str]) -> str:
    # Comparing takes the product of their lengths.
    if len(name) + sum(map(len, names)) > _MOST_CHARACTERS:
        return ""
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _subschema(schema: Any, path: list[Any]) -> Any:
    for part in path:
        schema = schema[int(part)] if isinstance(schema, list) else schema.get(part, {})
    return schema


def _escaped(part: object) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")
