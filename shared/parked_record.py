"""The record of a parked event on `onramp.user_errors`: its key, and the header with the reason.

The writer and the transforms park events in the same form, which the admin service stores and shows.
"""

from typing import Final, NamedTuple

import orjson

from shared.errors import OnrampError
from shared.kafka_read.offsets import Partition

HEADER_ERROR: Final = "onramp-error"
#: The message and the traceback of an author's function, which may contain values of the event.
HEADER_TRACEBACK: Final = "onramp-traceback"


class Identity(NamedTuple):
    """An event's own metadata (a packet has none) and its record's times, as RFC 3339."""

    id: str | None = None
    event_name: str | None = None
    version: str | None = None
    received_at: str | None = None
    timestamp: str | None = None


UNKNOWN: Final = Identity()


def parked_key(partition: Partition, offset: int, destination: str) -> bytes:
    """Return the record's key, which is the same each time this event is parked for this destination."""
    return f"{partition}/{offset}/{destination}".encode()


def reason(
    error: OnrampError,
    partition: Partition,
    offset: int,
    destination: str,
    *,
    topic_id: str | None = None,
    typed: bool | None = None,
    identity: Identity = UNKNOWN,
) -> bytes:
    """Return the header's JSON, with which an operator finds and fixes the event; never its values.

    docs/path-of-an-event.md documents the header for readers of the topic.
    """
    fault = error.fault
    return _storable(
        {
            "code": fault.code,
            "kind": fault.kind,
            "step": fault.step,
            "detail": error.detail,
            "pointer": error.pointer,
            "sqlstate": error.sqlstate,
            "column": error.column,
            "column_type": error.column_type,
            "constraint": error.constraint,
            "fix": fault.fix,
            "destination": destination,
            "typed": typed,
            "topic_id": topic_id,
            "topic": partition.topic,
            "partition": partition.number,
            "offset": offset,
            **identity._asdict(),
        }
    )


def _storable(reason: dict[str, object]) -> bytes:
    """Return JSON that `jsonb` accepts: without NUL characters, which a sender's names may contain."""
    return orjson.dumps(
        {name: each.replace("\0", "\\0") if isinstance(each, str) else each for name, each in reason.items()}
    )
