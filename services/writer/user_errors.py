"""PARK: the record of a parked event on `onramp.user_errors`, and its way there.

The value is the event byte for byte; the header ``onramp-error`` says why.  The key names
the event and its destination, so a repeat of the record is recognised as one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from services.writer import publishing
from services.writer.publishing import Record
from services.writer.ranges import Partition
from shared import wire
from shared.errors import OnrampError
from shared.kafka_security import Brokers

HEADER_ERROR: Final = "onramp-error"


@dataclass(frozen=True, slots=True)
class ParkedRecord:
    """One parked event: where it came from, its bytes, and why."""

    partition: Partition
    offset: int
    destination: str
    value: bytes | None
    error: bytes

    @property
    def key(self) -> bytes:
        """The same for every repeat of this event's parking."""
        return f"{self.partition}/{self.offset}/{self.destination}".encode()


def reason(error: OnrampError, partition: Partition, offset: int, destination: str) -> bytes:
    """The header's JSON: what a person needs to find and mend the event; never its values."""
    fault = error.fault
    return orjson.dumps(
        {
            "code": fault.code,
            "kind": fault.kind,
            "step": fault.step,
            "detail": error.detail,
            "pointer": error.pointer,
            "fix": fault.fix,
            "destination": destination,
            "topic": partition.topic,
            "partition": partition.number,
            "offset": offset,
        }
    )


def publish(brokers: Brokers, records: Sequence[ParkedRecord]) -> None:
    """Put `records` on the topic and return when Kafka holds them all.

    Raises `InfrastructureError`; some may have got there then, and a repeat has the same keys.
    """
    publishing.publish(
        brokers,
        [Record(wire.USER_ERRORS, r.key, r.value, ((HEADER_ERROR, r.error),)) for r in records],
    )
