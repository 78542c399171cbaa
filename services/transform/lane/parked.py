"""PARK: a source event that fails goes whole to `onramp.user_errors`, byte for byte, in the writer's format.

Its reason has the exception's type, the function and the line.  The message and the traceback may contain
values of the event, so they are in a header of their own.
"""

from typing import Final

from services.transform.function.results import Failure
from services.transform.lane.kafka_transaction import Headers, OutgoingRecord
from services.transform.lane.order import LaneOrder
from services.transform.lane.source import SourceEvent
from shared import wire
from shared.errors import TRANSFORM_CRASHED, TRANSFORM_MEMORY, TRANSFORM_TIMEOUT, OnrampError, UserError
from shared.kafka_read.identity import identities
from shared.parked_record import HEADER_ERROR, HEADER_TRACEBACK, parked_key, reason

#: Failures in which the function's process ended.
DEATHS: Final = frozenset({TRANSFORM_CRASHED, TRANSFORM_MEMORY, TRANSFORM_TIMEOUT})
_MAX_TRACEBACK_BYTES: Final = 16 << 10
_MAX_DETAIL: Final = 500


def error_of(failure: Failure) -> UserError:
    """Return the error of a failure, without values of the event."""
    place = f" in {failure.function}" if failure.function else ""
    line = f", line {failure.line}" if failure.line is not None else ""
    return UserError(failure.error, f"{failure.exception}{place}{line}"[:_MAX_DETAIL])


def traceback_of(failure: Failure) -> bytes:
    """Return the message and the end of the traceback, at most 16 KiB."""
    text = f"{failure.message}\n{failure.traceback}".strip().encode("utf-8", "backslashreplace")
    return text if len(text) <= _MAX_TRACEBACK_BYTES else text[-_MAX_TRACEBACK_BYTES:]


def parked_record(
    order: LaneOrder, source: SourceEvent, topic_id: str, error: OnrampError, traceback: bytes = b""
) -> OutgoingRecord:
    """Return the record of a parked event."""
    partition, offset = source.origin
    return OutgoingRecord(
        wire.USER_ERRORS,
        parked_key(partition, offset, order.destination),
        source.value,
        [(HEADER_ERROR, reason_of(order, source, topic_id, error)), *traceback_header(traceback)],
    )


def reason_of(order: LaneOrder, source: SourceEvent, topic_id: str, error: OnrampError) -> bytes:
    """Return the reason's JSON; `topic_id`: of the event's source topic."""
    (partition, offset), metadata = source.origin, source.envelope.metadata
    row = source.part.rows.slice(source.row, 1)
    (identity,) = identities(row, [metadata.id], [source.envelope.event_name], [metadata.version])
    return reason(error, partition, offset, order.destination, topic_id=topic_id, identity=identity)


def traceback_header(traceback: bytes) -> Headers:
    """Return the header of a traceback, if there is one."""
    return [(HEADER_TRACEBACK, traceback)] if traceback else []
