"""JSON Schemas of event types, compiled when they change; an error lists every fault of the payload."""

import logging
from collections.abc import Mapping
from time import thread_time
from typing import Any, Final

import orjson

from shared.contracts.faults import faults
from shared.contracts.json_schema import CompiledSchema, compile_schema
from shared.errors import (
    EVENT_TOO_LARGE,
    SCHEMA_MISMATCH,
    SCHEMA_UNUSABLE,
    InfrastructureError,
    UserError,
)
from shared.registry import Snapshot

logger = logging.getLogger(__name__)

#: Maximum number of faults reported for all events of a request together.
MAX_REPORTED: Final = 100
#: Maximum seconds of processor time for finding them: one event may take half a second.
MAX_SECONDS: Final = 0.5
_PAYLOAD: Final = "/payload"


class SchemaMismatchError(UserError):
    """The payload breaks its schema: each of `faults` has a pointer and a detail."""

    def __init__(self, faults: list[dict[str, str]]) -> None:
        super().__init__(SCHEMA_MISMATCH, faults[0]["detail"], faults[0]["pointer"])
        self.faults = faults


class ReportedFaults:
    """Counts the faults reported for the events of one request."""

    def __init__(self) -> None:
        self.faults = 0
        self.seconds = 0.0

    @property
    def is_full(self) -> bool:
        """Return whether faults of further events are not listed."""
        return self.faults >= MAX_REPORTED or self.seconds > MAX_SECONDS


class Schemas:
    """The compiled schemas of one snapshot. A schema that does not compile blocks only its own event type."""

    def __init__(self, snapshot: Snapshot, before: "Schemas | None" = None) -> None:
        """Compile every event type's schema (0.1 to 1 ms each), except those compiled in `before`."""
        self.snapshot = snapshot
        self._schemas: dict[str, CompiledSchema | ValueError] = {}
        #: Keyed by the schema's text: Python treats `true` and 1 as equal.
        self._by_text: dict[bytes, CompiledSchema | ValueError] = {}
        known = before._by_text if before else self._by_text  # noqa: SLF001 - its own class
        for name, event_type in snapshot.event_types.items():
            if (checked := event_type.checked_schema) is not None:
                text = orjson.dumps(checked)
                schema = known.get(text) or _compiled(name, checked)
                self._schemas[name] = self._by_text[text] = schema

    def has(self, event_name: str) -> bool:
        """Return whether the event type has a schema."""
        return event_name in self._schemas

    def estimate(self, event_name: str, size: int) -> int:
        """Return the maximum cost of `check` for an event of this size, in the unit of `schema_cost`."""
        schema = self._schemas.get(event_name)
        return schema.cost.estimate(size) if isinstance(schema, CompiledSchema) else 0

    def check(self, event_name: str, document: Any, size: int, reported: ReportedFaults) -> None:
        """Raise if the event type has a schema and the payload does not satisfy it.

        The error lists every fault, unless finding all would take long: in an event of many
        bytes (`size`), or after many faults in other events (`reported`).

        Raises:
            SchemaMismatchError: SCHEMA_MISMATCH, with a pointer for each fault.
            UserError: EVENT_TOO_LARGE, checking an event of this size could take too long.
            InfrastructureError: SCHEMA_UNUSABLE, the schema does not compile here.
        """
        schema = self._schemas.get(event_name)
        if schema is None:
            return
        if isinstance(schema, ValueError):
            raise InfrastructureError(SCHEMA_UNUSABLE, f"event_types.{event_name}.schema: {schema}")
        if reason := schema.cost.reason_against(document["payload"], size):
            raise UserError(EVENT_TOO_LARGE, reason)
        if schema.is_valid(document["payload"]):
            return
        if reported.is_full:
            raise UserError(SCHEMA_MISMATCH, "other events of the batch say more", _PAYLOAD)
        began = thread_time()
        found = faults(schema, document["payload"], size)
        reported.seconds += thread_time() - began
        reported.faults += len(found)
        raise SchemaMismatchError(found)


class Compiler:
    """Compiles a registry's schemas in the reading thread, before the registry takes effect."""

    def __init__(self) -> None:
        #: The latest first, then the previous one, which is in effect until the latest is.
        self._compiled: tuple[Schemas, ...] = ()

    def __call__(self, snapshot: Snapshot) -> None:
        """Compile the schemas that changed."""
        last = self._compiled[:1]
        self._compiled = (Schemas(snapshot, *last), *last)

    def for_snapshot(self, snapshot: Snapshot) -> Schemas:
        """Return the schemas of `snapshot`, compiled now unless the registry was read here."""
        recent = self._compiled
        return next((each for each in recent if each.snapshot is snapshot), None) or Schemas(snapshot)


def _compiled(name: str, schema: Mapping[str, Any]) -> CompiledSchema | ValueError:
    try:
        return compile_schema(schema)
    except ValueError as error:
        fields = {"event_type": name, "reason": str(error)}
        logger.error("schema cannot be used; events of its type are refused", extra=fields)  # noqa: TRY400 - no bug
        return error
