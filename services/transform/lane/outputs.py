"""An output as a record: its id, headers and envelope, after the checks that the gateway makes.

The envelope is the source's metadata and the function's own bytes of the payload, one after the other.
"""

from typing import Final

import orjson

from services.transform.function.output_checks import OutputChecks
from services.transform.function.results import OutputEvent
from services.transform.lane.kafka_transaction import OutgoingRecord
from services.transform.lane.order import LaneOrder
from services.transform.lane.source import SourceEvent
from shared import wire
from shared.kafka_read.offsets import Partition
from shared.transform_ids import output_id

_CONTEXT: Final = (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES)


class OutputRecords:
    """Makes the records of outputs, checked against the registered types of their names."""

    def __init__(self, order: LaneOrder) -> None:
        self._order = order
        self._checks = OutputChecks(order.outputs, order.event_types, order.max_event_bytes)
        self._version = (wire.HEADER_TRANSFORM, order.version.encode())
        self._topics = {name: order.topic_of(name) for name in order.outputs}
        #: Neighbouring events are of one partition, and have one version.
        self._partition: Partition | None = None
        self._receipt = b""
        self._event_version, self._version_json = "", b'""'

    def records(self, source: SourceEvent, outputs: tuple[OutputEvent, ...]) -> list[OutgoingRecord]:
        """Return the records of all outputs of an event.

        Raise `UserError` (TRANSFORM_BAD_OUTPUT) if one fails a check, and `InfrastructureError` for a schema
        that does not compile.
        """
        metadata = source.envelope.metadata
        partition, offset = source.origin
        if partition is not self._partition:
            self._partition = partition
            self._receipt = f"{partition.topic}/{partition.number}/".encode()
        if metadata.version != self._event_version:
            self._event_version, self._version_json = metadata.version, orjson.dumps(metadata.version)
        # orjson writes a time in a fifth of isoformat's time.
        time = orjson.dumps(metadata.timestamp)
        head = b'","timestamp":%b,"version":%b},"event_name":"' % (time, self._version_json)
        headers = [
            _CONTEXT,
            (wire.HEADER_RECEIVED_AT, source.received_at),
            (wire.HEADER_SOURCE, b"%b%d" % (self._receipt, offset)),
            self._version,
        ]
        made = []
        for k, output in enumerate(outputs, 1):
            event_id = output_id(self._order.name, metadata.id, k)
            value = b'{"metadata":{"id":"%b%b%b","payload":%b}' % (
                event_id,
                head,
                output.event_name.encode(),
                output.payload,
            )
            key = self._checks.key_of(k, output, len(value)) or event_id
            made.append(OutgoingRecord(self._topics[output.event_name], key, value, headers))
        return made
