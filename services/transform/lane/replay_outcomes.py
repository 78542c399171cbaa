"""The outcome of a replayed event, for the admin service: it commits with the outputs.

A replayed event that fails again is no second parked event: its outcome has the new reason.
"""

import orjson
import pyarrow as pa

from services.transform.lane.kafka_transaction import OutgoingRecord
from services.transform.lane.order import LaneOrder
from services.transform.lane.parked import reason_of, traceback_header
from services.transform.lane.source import SourceEvent, UnfitReplay
from shared import wire
from shared.errors import OnrampError
from shared.kafka_read.records import PartitionSlice
from shared.parked_record import reason
from shared.transform_replay import DROPPED, EMITTED, PARKED, Replay, ReplayOutcome


def processed(order: LaneOrder, source: SourceEvent, replay: Replay, outputs: int) -> OutgoingRecord:
    """Return the outcome of an event on which the function has run."""
    outcome = ReplayOutcome(
        transform=order.name,
        digest=order.digest,
        replay=replay,
        at=source.offset,
        outcome=EMITTED if outputs else DROPPED,
        outputs=outputs,
    )
    return _record(outcome, source.part, source.row)


def parked_again(
    order: LaneOrder, source: SourceEvent, replay: Replay, error: OnrampError, traceback: bytes
) -> OutgoingRecord:
    """Return the outcome of an event that has failed again."""
    why = reason_of(order, source, replay.topic_id, error)
    return _record(_parked(order, replay, source.offset, why), source.part, source.row, traceback)


def unfit(order: LaneOrder, each: UnfitReplay) -> OutgoingRecord:
    """Return the outcome of an event that the function cannot get."""
    replay = each.replay
    why = reason(each.error, replay.source, replay.offset, order.destination, topic_id=replay.topic_id)
    return _record(_parked(order, replay, each.offset, why), each.part, each.row)


def _parked(order: LaneOrder, replay: Replay, at: int, why: bytes) -> ReplayOutcome:
    return ReplayOutcome(
        transform=order.name,
        digest=order.digest,
        replay=replay,
        at=at,
        outcome=PARKED,
        reason=orjson.loads(why),
    )


def _record(outcome: ReplayOutcome, part: PartitionSlice, row: int, traceback: bytes = b"") -> OutgoingRecord:
    """Return the record, with the time of the replay's record."""
    milliseconds = part.rows.column("timestamp").slice(row, 1).cast(pa.timestamp("ms", "UTC"), safe=False)
    (timestamp,) = milliseconds.cast(pa.int64()).to_pylist()
    headers = traceback_header(traceback)
    return OutgoingRecord(wire.TRANSFORM_REPLAYED, outcome.key, outcome.value(), headers, timestamp)
