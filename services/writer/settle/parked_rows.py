"""Builds the records of rows that a table does not take, each with its reason and identity."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from services.writer.model.targets import Target
from services.writer.park.parked_topic import ParkedRecord, reason
from services.writer.persist.persist import Parked, PersistResult
from shared.kafka_read.identity import identities
from shared.kafka_read.offsets import Partition
from shared.parked_record import Identity

#: Columns of a landing table, which rows with only an origin do not have.
_METADATA: Final = ("_id", "_event_name", "_version")


def parked_records(
    target: Target, topic_id: str, records: pa.Table, parked: Sequence[Parked], rows: pa.Table
) -> Iterator[ParkedRecord]:
    """Yield the record of each of `parked`, which are among `rows` and in the partition of `records`."""
    destination = f"{target.database}.{target}"
    ordered = sorted(parked, key=lambda event: event.offset)
    (batch,) = records.sort_by("offset").combine_chunks().to_batches()
    known = _identities(batch, ordered, rows)
    for event, identity, value in zip(ordered, known, batch.column("value").to_pylist(), strict=True):
        error = reason(
            event.error,
            event.partition,
            event.offset,
            destination,
            topic_id=topic_id,
            typed=target.typed,
            identity=identity,
        )
        yield ParkedRecord(event.partition, event.offset, destination=destination, value=value, error=error)


def _identities(records: pa.RecordBatch, parked: Sequence[Parked], rows: pa.Table) -> list[Identity]:
    taken = rows.take(pa.array([event.row_index for event in parked], pa.int64()))
    nulls = [None] * len(parked)
    columns = (taken.column(c).to_pylist() if c in rows.column_names else nulls for c in _METADATA)
    return identities(records, *columns)


def by_partition(result: PersistResult, late_rows: Collection[int]) -> Mapping[Partition, Sequence[Parked]]:
    """Return the parked events by partition, without `late_rows`, which wait."""
    out: dict[Partition, list[Parked]] = defaultdict(list)
    for event in result.parked:
        if event.row_index not in late_rows:
            out[event.partition].append(event)
    return out
