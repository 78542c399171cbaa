"""An output as a record: its id, headers and envelope, after the checks that the gateway makes.

The envelope is the source's metadata and the function's own bytes of the payload, one after the other.
"""

import orjson

from services.transform.function.output_checks import OutputChecks
from services.transform.function.results import OutputEvent
from services.transform.lane.kafka_transaction import OutgoingRecord
from services.transform.lane.order import LaneOrder
from services.transform.lane.source import SourceEvent
from shared import wire
from shared.transform_ids import output_id


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
        partition, offset = source.origin
        receipt = f"{partition.topic}/{partition.number}/{offset}".encode()
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
