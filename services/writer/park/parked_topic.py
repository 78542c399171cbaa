"""PARK: the record of a parked event on `onramp.user_errors`, and its way there.

The value is the event byte for byte; the header ``onramp-error`` says why.  The key names
the event and its destination, so a repeat of the record is recognised as one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from services.writer.kafka import producer
from services.writer.kafka.producer import Record, TooLargeError
from services.writer.model.offsets import Partition
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

    def as_record(self) -> Record:
        """What is put on the topic."""
        return Record(wire.USER_ERRORS, self.key, self.value, ((HEADER_ERROR, self.error),))


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


@dataclass(frozen=True, slots=True)
class Left:
    """What is too large for the topic, and why."""

    records: tuple[ParkedRecord, ...]
    error: TooLargeError


def publish(brokers: Brokers, records: Sequence[ParkedRecord]) -> Left | None:
    """Put `records` on the topic and return when Kafka holds all that it takes, with what it does not.

    Raises `InfrastructureError`; some may have got there then, and a repeat has the same keys.
    """
    found = [r.as_record() for r in records]
    # The large ones last and the smallest of them first: what is refused is followed by what would be.
    in_turn = sorted(found, key=lambda r: max(r.size, producer.ALONE_BYTES))
    refused: TooLargeError | None = None
    while True:
        try:
            producer.publish(brokers, [r for r in in_turn if not refused or r.size < refused.size])
        except TooLargeError as e:
            refused = e
        else:
            break
    if refused is None:
        return None
    return Left(tuple(p for p, r in zip(records, found, strict=True) if r.size >= refused.size), refused)
