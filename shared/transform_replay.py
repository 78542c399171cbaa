"""A parked event that a transform runs on again: its record on Kafka, and the record of its outcome.

The admin service writes the first one to `onramp.transform_replays`.  The transform commits the second one to
`onramp.transform_replayed`, in the transaction of its outputs, so each attempt has exactly one outcome.  A
rehearsal has the outcome alone.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

import msgspec
import orjson

from shared import wire
from shared.kafka_read.offsets import Partition
from shared.parse_errors import UNREADABLE

EMITTED: Final = "emitted"
DROPPED: Final = "dropped"
PARKED: Final = "parked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One attempt of a job at a parked event, and the source position of the event."""

    #: UUID of the job.
    job: str
    #: Id in the control database.
    event: int
    attempt: int
    topic_id: str
    topic: str
    partition: int
    offset: int
    #: Whether only the outcome is wanted: no output is written.
    is_rehearsal: bool = False

    @property
    def source(self) -> Partition:
        """Return the partition that has the event."""
        return Partition(self.topic, self.partition)

    def context(self, transform: str) -> bytes:
        """Return the header `context` of the record, which names the transform and this attempt."""
        return orjson.dumps({"consumer": _consumer(transform), "replay": asdict(self)})

    @classmethod
    def of_context(cls, context: bytes | None, transform: str) -> Self | None:
        """Return the attempt that a header names; None for another transform's, or another client's."""
        try:
            document: dict[str, Any] = orjson.loads(context or b"")
            is_own = document["consumer"] == _consumer(transform)
            return msgspec.convert(document["replay"], cls) if is_own else None
        except UNREADABLE:
            return None

    @classmethod
    def in_context(cls, context: bytes | None) -> Self | None:
        """Return the attempt that a header names, for any transform; None for another client's."""
        try:
            return msgspec.convert(orjson.loads(context or b"")["replay"], cls)
        except UNREADABLE:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """The outcome of an attempt; a parked event has the reason, as on `onramp.user_errors`."""

    transform: str
    #: SHA-256 of the function's source.
    digest: str
    replay: Replay
    #: Offset of the attempt on `onramp.transform_replays`.
    at: int
    outcome: str
    outputs: int = 0
    reason: Mapping[str, Any] | None = None

    @property
    def key(self) -> bytes:
        """Return the record's key."""
        return f"{self.replay.job}/{self.replay.event}/{self.replay.attempt}".encode()

    def value(self) -> bytes:
        """Return the record's value."""
        return orjson.dumps(asdict(self))

    @classmethod
    def parse(cls, value: bytes | None) -> Self | None:
        """Return the record's content; None for a record of another client."""
        try:
            return msgspec.convert(orjson.loads(value or b""), cls)
        except UNREADABLE:
            return None


def _consumer(transform: str) -> dict[str, str]:
    return {"type": "transform", "name": transform}


def transform_of(destination: str) -> str | None:
    """Return the transform that parked an event for `destination`; None if a database's table refused it."""
    name = destination.removeprefix(wire.TRANSFORM_DESTINATION)
    return None if name == destination else name
