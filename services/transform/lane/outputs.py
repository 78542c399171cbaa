"""An output as a record: its id, headers and envelope, after the checks that the gateway makes.

The envelope is the source's metadata and the function's own bytes of the payload, one after the other.
"""

import hashlib
from typing import Final

import orjson

from services.transform.function.output_checks import OutputChecks
from services.transform.function.results import OutputEvent
from services.transform.lane.kafka_transaction import OutgoingRecord
from services.transform.lane.order import LaneOrder
from services.transform.lane.source import SourceEvent
from shared import wire

#: Maximum characters of an event's id.
_MAX_ID: Final = 128
_SHA_DIGITS: Final = 64


class OutputRecords:
    """Makes the records of outputs, checked against the registered types of their names."""

    def __init__(self, order: LaneOrder) -> None:
        self._order = order
        self._checks = OutputChecks(order.outputs, order.event_types, order.max_event_bytes)
        self._version = (wire.HEADER_TRANSFORM, order.version.encode())
        self._topics = {name: order.topic_of(name) for name in order.outputs}

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
            key = self._checks.key_of(k, output, len(value)) or event_id
            made.append(OutgoingRecord(self._topics[output.event_name], key, value, headers))
        return made


def output_id(transform: str, source_id: str, k: int) -> bytes:
    """Return the id of output number `k`, from 1: the same in each attempt at the event, so repeats are seen.

    A longer id than an envelope may have is cut, and ends with the SHA-256 of the whole.
    """
    whole = f"{transform}:{source_id}" if k == 1 else f"{transform}:{source_id}:{k}"
    if len(whole) > _MAX_ID:
        digest = hashlib.sha256(whole.encode()).hexdigest()
        whole = f"{whole[: _MAX_ID - _SHA_DIGITS - 1]}:{digest}"
    return whole.encode()
