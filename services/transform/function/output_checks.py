"""The gateway's checks of an output: its name, size, JSON Schema and key.

Lane runs, rehearsals and tests on examples use them alike.  An output of a type without schema and key is
never parsed.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from services.transform.function.results import OutputEvent
from shared import strict_json
from shared.contracts.key_at_pointer import key_at
from shared.contracts.type_schemas import ReportedFaults, Schemas
from shared.errors import EVENT_TOO_LARGE, TRANSFORM_BAD_OUTPUT, InfrastructureError, OnrampError, UserError
from shared.registry.entries import EventType, Snapshot

#: Default maximum bytes of an output, as of an event at the gateway.
MAX_EVENT_BYTES: Final = 900_000
#: Bytes of an envelope around a payload: an id of 128, a time, a version and the names.
_ENVELOPE_BYTES: Final = 300


class OutputChecks:
    """The checks of one transform's outputs, with its types' schemas compiled once."""

    def __init__(
        self,
        names: Collection[str] | None,
        event_types: Mapping[str, EventType],
        max_event_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        """`names`: the transform's `to`; None if it is not registered, then any name may be."""
        self._names = None if names is None else frozenset(names)
        self._max_event_bytes = max_event_bytes
        self._types = {name: each for name, each in event_types.items() if names is None or name in names}
        self._schemas = Schemas(Snapshot(event_types=self._types))
        #: Maximum bytes of the listed names that have neither schema nor key.
        self._max_bytes = {
            name: limit for name in names or () if (limit := self._only_limit(name)) is not None
        }

    def key_of(self, number: int, output: OutputEvent, size: int) -> bytes | None:
        """Return the key that the output's type takes from the payload; None if its key is the id.

        `number`: of the output, from 1.  `size`: bytes of the whole event.  Raise `UserError`
        (TRANSFORM_BAD_OUTPUT) with the gateway's code and detail, which has no value of the payload, and
        `InfrastructureError` for a schema that does not compile.
        """
        if size <= self._max_bytes.get(output.event_name, -1):
            return None  # most outputs: no key and nothing else to check
        try:
            return self._key_of(output, size)
        except UserError as e:
            raise self._bad_output(number, output.event_name, e) from None

    def fault_of(self, outputs: Collection[OutputEvent]) -> UserError | None:
        """Return why one of an event's outputs is invalid, from estimated sizes; None if all are valid."""
        for number, output in enumerate(outputs, 1):
            try:
                self.key_of(number, output, len(output.payload) + _ENVELOPE_BYTES)
            except UserError as e:
                return e
            except InfrastructureError as e:
                return self._bad_output(number, output.event_name, e)
        return None

    def _bad_output(self, number: int, name: str, error: OnrampError) -> UserError:
        """Return the error; a name that is not listed is not shown: it may be a value of the event."""
        is_listed = self._names is None or name in self._names
        place = f"output {number} ({name})" if is_listed else f"output {number}"
        return UserError(TRANSFORM_BAD_OUTPUT, f"{place}: {error.fault.code}: {error.detail}", error.pointer)

    def _only_limit(self, name: str) -> int | None:
        """Return the maximum bytes of a type for which size is the only check; None for others."""
        event_type = self._types.get(name)
        if event_type is None:
            return self._max_event_bytes
        if event_type.key is not None or self._schemas.has(name):
            return None
        return min(self._max_event_bytes, event_type.max_bytes or self._max_event_bytes)

    def _key_of(self, output: OutputEvent, size: int) -> bytes | None:
        name = output.event_name
        if self._names is not None and name not in self._names:
            raise UserError(TRANSFORM_BAD_OUTPUT, "the registry does not list this event name in `to`")
        if size > self._max_event_bytes:
            raise UserError(EVENT_TOO_LARGE, f"{size} bytes; the limit is {self._max_event_bytes}")
        event_type = self._types.get(name)
        if event_type is None:
            return None
        if event_type.max_bytes is not None and size > event_type.max_bytes:
            raise UserError(EVENT_TOO_LARGE, f"{size} bytes; this type's limit is {event_type.max_bytes}")
        if event_type.key is None and not self._schemas.has(name):
            return None
        document = _document(output.payload)
        self._schemas.check(name, document, size, ReportedFaults())
        return None if event_type.key is None else key_at(document["payload"], event_type.key)


def _document(payload: bytes) -> dict[str, Any]:
    """Return the part of the event that schemas and keys refer to, at its depth in the event."""
    part = b'{"payload":%s}' % payload
    try:
        document: dict[str, Any] = msgspec.json.decode(part)
    except (msgspec.DecodeError, RecursionError) as e:
        raise UserError(TRANSFORM_BAD_OUTPUT, f"the payload is no JSON: {type(e).__name__}") from None
    strict_json.check_depth(part, document)
    return document
