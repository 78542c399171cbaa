"""JSON Schemas of event types: compiled once per snapshot, every fault told at once.

jsonschema-rs would fetch a remote `$ref` and open `file://` (SSRF), so its retriever
refuses; its messages echo values, so ours are made from the schema's keywords alone.
"""

import difflib
import itertools
from collections.abc import Collection, Mapping
from typing import Any, Final, NoReturn

import jsonschema_rs

from shared.errors import SCHEMA_MISMATCH, UserError
from shared.registry import Snapshot

#: Faults of one event, and of all events of a request together, that are told in full.
_MOST_FAULTS: Final = 50
MOST_TOLD: Final = 100
#: Of larger events only the first fault is told.
_MOST_BYTES: Final = 16 * 1024
#: Unknown names that are repeated, and characters of names among which a near one is looked for.
_MOST_EXTRA: Final = 10
_MOST_CHARACTERS: Final = 4096
_PAYLOAD: Final = "/payload"
#: Keywords whose value in the schema says what was expected and is safe to repeat.
_TOLD: Final = frozenset(
    {
        "type", "format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
        "maxProperties", "uniqueItems",
    }
)  # fmt: skip


class SchemaMismatchError(UserError):
    """The payload and its schema disagree at every place in `faults`."""

    def __init__(self, faults: list[dict[str, str]]) -> None:
        super().__init__(SCHEMA_MISMATCH, faults[0]["detail"], faults[0]["pointer"])
        self.faults = faults


class Told:
    """How many faults one request's events were told."""

    def __init__(self) -> None:
        self.faults = 0


class Schemas:
    """The compiled schemas of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Compile every event type's schema.

        Raises:
            ValueError: one is no JSON Schema; the message names its event type.
        """
        self.snapshot = snapshot
        self._validators: dict[str, Any] = {}
        self._schemas: dict[str, Mapping[str, Any]] = {}
        for name, event_type in snapshot.event_types.items():
            if event_type.json_schema is not None:
                self._validators[name] = _compiled(name, event_type.json_schema)
                self._schemas[name] = event_type.json_schema

    def check(self, event_name: str, document: Any, size: int, told: Told) -> None:
        """Raise `UserError` SCHEMA_MISMATCH when the event type has a schema and the payload breaks it.

        With every fault, unless the event of `size` bytes or what was `told` before says that
        finding them all would take long.
        """
        validator = self._validators.get(event_name)
        if validator is None or validator.is_valid(document["payload"]):
            return
        if told.faults >= MOST_TOLD:
            raise UserError(SCHEMA_MISMATCH, "other events of the batch say more", _PAYLOAD)
        schema = self._schemas[event_name]
        faults = [_fault(error, schema) for error in _errors(validator, document["payload"], size)]
        told.faults += len(faults)
        raise SchemaMismatchError(faults)


def _errors(validator: Any, payload: Any, size: int) -> list[Any]:
    # The list of all is made as a whole, each with a copy of what it is about: of 60,000
    # fields and 20 that are missing in 1 s, while nobody else gets a turn.
    if size <= _MOST_BYTES:
        return list(itertools.islice(validator.iter_errors(payload), _MOST_FAULTS))
    try:
        validator.validate(payload)
    except jsonschema_rs.ValidationError as first:
        return [first]
    raise AssertionError("the payload is not valid and has no fault")


class Compiler:
    """Compiles a registry's schemas where it is read, off the event loop, and keeps the last for use."""

    def __init__(self) -> None:
        self._last: Schemas | None = None

    def __call__(self, snapshot: Snapshot) -> None:
        """Raise `ValueError` unless every schema compiles: a registry is valid as a whole."""
        self._last = Schemas(snapshot)

    def of(self, snapshot: Snapshot) -> Schemas:
        """The schemas of `snapshot`: compiled before, unless another took its place."""
        last = self._last
        return last if last is not None and last.snapshot is snapshot else Schemas(snapshot)


def check_schemas(snapshot: Snapshot) -> None:
    """Raise `ValueError` unless every schema compiles."""
    Schemas(snapshot)


def _compiled(name: str, schema: Mapping[str, Any]) -> Any:
    try:
        return jsonschema_rs.validator_for(dict(schema), validate_formats=True, retriever=_refuse)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as e:
        reason = getattr(e, "message", str(e))
        raise ValueError(f"event_types.{name}.schema: {reason}") from None


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"a schema may not refer to another document ({uri})")


def _fault(error: Any, schema: Mapping[str, Any]) -> dict[str, str]:
    pointer = _PAYLOAD + "".join(f"/{_escaped(part)}" for part in error.instance_path)
    *place, keyword = error.schema_path or [""]
    told = _told(str(keyword), _at(schema, place), error)
    return {"pointer": pointer, "detail": told}


def _told(keyword: str, around: Any, error: Any) -> str:
    around = around if isinstance(around, Mapping) else {}
    known = list(around.get("properties", {}))
    if keyword == "required":
        missing = error.kind.property
        return f"the field {missing} is missing{_nearest(missing, error.instance)}"
    if keyword == "additionalProperties":
        extra = error.kind.unexpected
        said = [f"the field {name:.70} is not known{_nearest(name, known)}" for name in extra[:_MOST_EXTRA]]
        more = [f"and {len(extra) - _MOST_EXTRA} more"] if len(extra) > _MOST_EXTRA else []
        return "; ".join(said + more)
    if keyword in _TOLD:
        return f"expected {keyword} {around.get(keyword)}"
    return f"does not satisfy {keyword or 'the schema'}"


def _nearest(name: str, names: Collection[str]) -> str:
    # Comparing takes the product of their lengths.
    if len(name) + sum(map(len, names)) > _MOST_CHARACTERS:
        return ""
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _at(schema: Any, path: list[Any]) -> Any:
    for part in path:
        schema = schema[int(part)] if isinstance(schema, list) else schema.get(part, {})
    return schema


def _escaped(part: object) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")
