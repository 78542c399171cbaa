"""Checks an output as the gateway would: its name, size, JSON Schema and key."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import orjson

from services.transform.function.results import OutputEvent
from shared import strict_json
from shared.contracts.key_at_pointer import key_at
from shared.contracts.type_schemas import ReportedFaults, Schemas
from shared.errors import EVENT_TOO_LARGE, TRANSFORM_BAD_OUTPUT, InfrastructureError, OnrampError, UserError
from shared.registry.entries import EventType, Snapshot

#: Bytes of an envelope around a payload: an id of 128, a time, a version and the names.
_ENVELOPE_BYTES: Final = 300
#: The transform service's default maximum of an event.
_MAX_EVENT_BYTES: Final = 900_000


class OutputChecks:
    """The checks of one transform's outputs, with its types' schemas compiled once."""

    def __init__(self, names: Collection[str], event_types: Mapping[str, EventType]) -> None:
        """`names`: the transform's `to`; empty if the transform is not registered, then any name may be."""
        self._names = frozenset(names)
        self._types = {name: each for name, each in event_types.items() if name in self._names or not names}
        self._schemas = Schemas(Snapshot(event_types=self._types))

    def fault_of(self, outputs: Collection[OutputEvent]) -> UserError | None:
        """Return why an output is invalid; None if all are valid."""
        for number, output in enumerate(outputs, 1):
            try:
                self._check(output)
            except (UserError, InfrastructureError) as e:
                return _bad_output(number, output.event_name, e)
        return None

    def _check(self, output: OutputEvent) -> None:
        name, size = output.event_name, len(output.payload) + _ENVELOPE_BYTES
        if self._names and name not in self._names:
            raise UserError(TRANSFORM_BAD_OUTPUT, "the registry does not list this event name in `to`")
        event_type = self._types.get(name)
        limit = min(_MAX_EVENT_BYTES, (event_type.max_bytes if event_type else None) or _MAX_EVENT_BYTES)
        if size > limit:
            raise UserError(EVENT_TOO_LARGE, f"about {size} bytes; the limit is {limit}")
        if event_type is None or not (self._schemas.has(name) or event_type.key):
            return
        document: dict[str, Any] = {"payload": orjson.loads(output.payload)}
        strict_json.check_depth(output.payload, document)
        self._schemas.check(name, document, size, ReportedFaults())
        if event_type.key:
            key_at(document["payload"], event_type.key)


def _bad_output(number: int, name: str, error: OnrampError) -> UserError:
    detail = f"output {number} ({name}): {error.fault.code}: {error.detail}"
    return UserError(TRANSFORM_BAD_OUTPUT, detail, error.pointer)
