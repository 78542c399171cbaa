"""PARK: puts parked events on `onramp.user_errors`.

A record's value is the event byte for byte; its header ``onramp-error`` has the reason.  Its key
identifies the event and its destination, so that a repeated record is recognised.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from services.writer.kafka import producer
from services.writer.kafka.producer import Record, TooLargeError
from shared import wire
from shared.kafka_read.offsets import Partition
from shared.kafka_security import Brokers
from shared.parked_record import HEADER_ERROR, parked_key, reason

__all__ = ["HEADER_ERROR", "NotPublished", "ParkedRecord", "publish", "reason"]


@dataclass(frozen=True, slots=True)
class ParkedRecord:
    """One parked event: its origin, its bytes, and the reason (`error`: the header's JSON)."""

    partition: Partition
    offset: int
    _: KW_ONLY
    destination: str
    value: bytes | None
    error: bytes

    @property
    def key(self) -> bytes:
        """Return the record's key, which is the same each time this event is parked."""
        return parked_key(self.partition, self.offset, self.destination)

    def as_record(self) -> Record:
        """Return the record for the topic."""
        return Record(wire.USER_ERRORS, self.key, self.value, ((HEADER_ERROR, self.error),))


@dataclass(frozen=True, slots=True)
class NotPublished:
    """Records that are too large for the topic, and the error of the smallest that was rejected."""

    records: tuple[ParkedRecord, ...]
    error: TooLargeError


def publish(brokers: Brokers, records: Sequence[ParkedRecord]) -> NotPublished | None:
    """Put `records` on the topic, wait for their acknowledgement, and return the records that are too large.

    Raises `InfrastructureError`; then some may be on the topic, and a repeat has the same keys.
    """
    kafka_records = [r.as_record() for r in records]
    # Large records last, the smallest of them first: all records after a rejected one are too large too.
    by_size = sorted(kafka_records, key=lambda r: max(r.size, producer.ALONE_BYTES))
    rejected: TooLargeError | None = None
    while True:
        try:
            producer.publish(brokers, [r for r in by_size if not rejected or r.size < rejected.size])
        except TooLargeError as e:
            rejected = e
        else:
            break
    if rejected is None:
        return None
    left = (p for p, r in zip(records, kafka_records, strict=True) if r.size >= rejected.size)
    return NotPublished(tuple(left), rejected)
