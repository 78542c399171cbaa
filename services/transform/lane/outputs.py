"""An output as a record: its id, headers and envelope, after the checks that the gateway makes.

The envelope is the source's metadata and the function's own bytes of the payload, one after the other: an
output of a type without schema and key is never parsed.
"""

import hashlib
from typing import Any, Final

import msgspec
import orjson

from services.transform.function.results import OutputEvent
from services.transform.lane.kafka_transaction import OutgoingRecord
from services.transform.lane.order import LaneOrder
from services.transform.lane.source import SourceEvent
from shared import strict_json, wire
from shared.contracts.key_at_pointer import key_at
from shared.contracts.type_schemas import ReportedFaults, Schemas
from shared.errors import EVENT_TOO_LARGE, TRANSFORM_BAD_OUTPUT, OnrampError, UserError
from shared.registry.entries import EventType, Snapshot

#: Maximum characters of an event's id.
_MAX_ID: Final = 128
_SHA_DIGITS: Final = 64


class OutputRecords:
    """Makes the records of outputs, checked against the registered types of their names."""

    def __init__(self, order: LaneOrder) -> None:
        self._order = order
        self._schemas = Schemas(Snapshot(event_types=dict(order.event_types)))
        self._version = (wire.HEADER_TRANSFORM, order.version.encode())
        #: Names whose outputs are parsed.
        self._parsed = {
            name
            for name, each in order.event_types.items()
            if each.key is not None or self._schemas.has(name)
        }
        self._topics = {name: order.topic_of(name) for name in order.outputs}
        self._reported = ReportedFaults()

    def records(self, source: SourceEvent, outputs: tuple[OutputEvent, ...]) -> list[OutgoingRecord]:
        """Return the records of all outputs of an event.

        Raise `UserError` (TRANSFORM_BAD_OUTPUT) if one fails a check, and `InfrastructureError` for a schema
        that does not compile.
        """
        metadata = source.envelope.metadata
        head = b'","timestamp":"%s","version":%s},"event_name":"' % (
            metadata.timestamp.isoformat().encode(),
            orjson.dumps(metadata.version),
        )
        partition = source.part.partition
        receipt = f"{partition.topic}/{partition.number}/{source.offset}".encode()
        headers = [
            (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES),
            (wire.HEADER_RECEIVED_AT, source.received_at),
            (wire.HEADER_SOURCE, receipt),
            self._version,
        ]
        made = []
        for k, output in enumerate(outputs, 1):
            event_id = output_id(self._order.name, metadata.id, k)
            name = output.event_name.encode()
            value = b'{"metadata":{"id":"%s%s%s","payload":%s}' % (
                event_id,
                head,
                name,
                output.payload,
            )
            try:
                key = self._checked(output.event_name, event_id, value, output.payload)
            except UserError as e:
                raise _bad_output(k, output.event_name, e) from None
            made.append(OutgoingRecord(self._topics[output.event_name], key, value, headers))
        return made

    def _checked(self, name: str, event_id: bytes, value: bytes, payload: bytes) -> bytes:
        """Return the output's key.  Raise `UserError`."""
        if name not in self._topics:
            raise UserError(TRANSFORM_BAD_OUTPUT, "the registry does not list this event name in `to`")
        if len(value) > self._order.max_event_bytes:
            limit = self._order.max_event_bytes
            raise UserError(EVENT_TOO_LARGE, f"{len(value)} bytes; the limit is {limit}")
        event_type = self._order.event_types.get(name)
        if event_type is None:
            return event_id
        if event_type.max_bytes is not None and len(value) > event_type.max_bytes:
            limit = event_type.max_bytes
            raise UserError(EVENT_TOO_LARGE, f"{len(value)} bytes; this type's limit is {limit}")
        if name not in self._parsed:
            return event_id
        return self._parsed_key(name, event_type, event_id, value, payload)

    def _parsed_key(
        self, name: str, event_type: EventType, event_id: bytes, value: bytes, payload: bytes
    ) -> bytes:
        document: dict[str, Any] = {"payload": _document(payload)}
        strict_json.check_depth(value, document)
        self._schemas.check(name, document, len(value), self._reported)
        return event_id if event_type.key is None else key_at(document["payload"], event_type.key)


def _document(payload: bytes) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError) as e:
        raise UserError(TRANSFORM_BAD_OUTPUT, f"the payload is no JSON: {type(e).__name__}") from None


def _bad_output(k: int, name: str, error: OnrampError) -> UserError:
    """Return the error of an output: the gateway's code and detail, which has no value of the payload."""
    detail = f"output {k} ({name}): {error.fault.code}: {error.detail}"
    return UserError(TRANSFORM_BAD_OUTPUT, detail, error.pointer)


def output_id(transform: str, source_id: str, k: int) -> bytes:
    """Return the id of output number `k`, from 1: the same in each attempt at the event, so repeats are seen.

    A longer id than an envelope may have is cut, and ends with the SHA-256 of the whole.
    """
    whole = f"{transform}:{source_id}" if k == 1 else f"{transform}:{source_id}:{k}"
    if len(whole) > _MAX_ID:
        digest = hashlib.sha256(whole.encode()).hexdigest()
        whole = f"{whole[: _MAX_ID - _SHA_DIGITS - 1]}:{digest}"
    return whole.encode()
