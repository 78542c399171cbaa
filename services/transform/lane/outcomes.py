"""The outcomes of one batch: each event is emitted, dropped or parked, and counted in the totals."""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import orjson

from services.transform.function.results import Dropped, FunctionResult, Outputs
from services.transform.function.runner import LogLine
from services.transform.lane import replay_outcomes
from services.transform.lane.kafka_transaction import OutgoingRecord
from services.transform.lane.order import LaneOrder
from services.transform.lane.outputs import OutputRecords
from services.transform.lane.parked import DEATHS, error_of, parked_record, traceback_of
from services.transform.lane.source import Batch, SourceEvent
from shared import wire
from shared.errors import UserError
from shared.kafka_read.offsets import Partition
from shared.transform_totals import Position, as_record


class Outcomes:
    """Collects the records and the totals of a batch."""

    def __init__(
        self, order: LaneOrder, outputs: OutputRecords, positions: Mapping[Partition, Position]
    ) -> None:
        """`positions`: before the batch."""
        self._order = order
        self._outputs = outputs
        self._before = positions
        self._counts: dict[Partition, Counter[str]] = defaultdict(Counter)
        self.records: list[OutgoingRecord] = []

    def add(self, batch: Batch, results: Sequence[FunctionResult], ends: float) -> Batch:
        """Add the first events of `batch`, which have the function's `results`; return the batch of these.

        The checks of outputs end at the time `ends` (monotonic), after one event at least.
        """
        part, counts, added = None, Counter[str](), 0
        for source, result in zip(batch.events, results, strict=False):
            if added and time.monotonic() >= ends:
                break
            if source.part is not part:  # neighbouring events are of one slice
                part = source.part
                counts = self._counts[part.partition]
            if source.replay is not None and source.replay.is_rehearsal:
                self._rehearse(source, result)
                counts["filtered"] += 1
            else:
                self._add(source, result, counts)
            added += 1
        done = batch if added == len(batch.events) else batch.first(added)
        for partition, count in done.filtered.items():
            self._counts[partition]["filtered"] += count
        for each in done.unfit:
            self.records.append(replay_outcomes.unfit(self._order, each))
            outcome = "filtered" if each.replay.is_rehearsal else "parked"
            self._counts[each.part.partition][outcome] += 1
        return done

    def _rehearse(self, source: SourceEvent, result: FunctionResult) -> None:
        """Add the outcome alone.  The totals do not have it, so no rehearsal pauses the transform."""
        before = len(self.records)
        self._add(source, result, Counter())
        self.records[before:] = [r for r in self.records[before:] if r.topic == wire.TRANSFORM_REPLAYED]

    def _add(self, source: SourceEvent, result: FunctionResult, counts: Counter[str]) -> None:
        if isinstance(result, Outputs):
            try:
                records = self._outputs.records(source, result.items)
            except UserError as e:
                self._park(source, counts, e)
            else:
                counts["emitted"] += 1
                counts["outputs"] += len(records)
                self.records += records
                self._end_replay(source, len(records))
        elif isinstance(result, Dropped):
            counts["dropped"] += 1
            self._end_replay(source, 0)
        else:
            counts["deaths"] += result.error in DEATHS
            self._park(source, counts, error_of(result), traceback_of(result))

    def _end_replay(self, source: SourceEvent, outputs: int) -> None:
        """Add the outcome of an event that an operator has replayed or rehearsed."""
        if source.replay is not None:
            self.records.append(replay_outcomes.processed(self._order, source, source.replay, outputs))

    def _park(
        self, source: SourceEvent, counts: Counter[str], error: UserError, traceback: bytes = b""
    ) -> None:
        topic_id = self._before[source.part.partition].totals.topic_id
        if source.replay is None:
            record = parked_record(self._order, source, topic_id, error, traceback)
        else:
            record = replay_outcomes.parked_again(self._order, source, source.replay, error, traceback)
        self.records.append(record)
        counts["parked"] += 1

    def positions(self, batch: Batch) -> dict[Partition, Position]:
        """Return the positions after `batch`, of the partitions that moved."""
        return {
            p: Position(at, self._before[p].totals.plus(**self._counts[p])) for p, at in batch.next.items()
        }


def totals_records(order: LaneOrder, positions: Mapping[Partition, Position]) -> list[OutgoingRecord]:
    """Return the records of `onramp.transformed` for committed positions."""
    records = []
    for partition, position in positions.items():
        key, value = as_record(order.name, partition, position)
        records.append(OutgoingRecord(wire.TRANSFORMED, key, value, []))
    return records


def log_records(order: LaneOrder, logs: tuple[Sequence[LogLine], int]) -> list[OutgoingRecord]:
    """Return the lines of the function for `onramp.transform_logs`; they commit with their events."""
    lines, suppressed = logs
    if suppressed:
        text = f"{suppressed} lines were suppressed: more than 100 within a second"
        now = datetime.now(UTC).timestamp()
        lines = [*lines, LogLine("", order.digest, now, "WARNING", text)]
    return [
        OutgoingRecord(
            wire.TRANSFORM_LOGS,
            order.name.encode(),
            orjson.dumps(
                {
                    "transform": order.name,
                    "digest": line.digest,
                    "event_id": line.event_id,
                    "at": line.at,
                    "level": line.level,
                    "text": line.text,
                }
            ),
            [],
        )
        for line in lines
    ]
