"""JSON Schemas of event types: compiled when they change; an error has every fault of the payload."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from shared.contracts.faults import faults
from shared.contracts.json_schema import compile_schema
from shared.errors import SCHEMA_MISMATCH, UserError
from shared.registry import Snapshot

#: So many faults of all events of a request together are reported.
MOST_REPORTED: Final = 100
_PAYLOAD: Final = "/payload"


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

    def has(self, event_name: str) -> bool:
        """Whether the event type has a schema."""
        return event_name in self._validators

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
        found = faults(validator, self._schemas[event_name], document["payload"], size)
        reported.faults += len(found)
        raise SchemaMismatchError(found)


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
