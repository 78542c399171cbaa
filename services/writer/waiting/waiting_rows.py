"""Converts events that waited in their database into a settlement's rows, records and context."""

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
from psycopg2.extensions import connection

from services.writer.changes.read_changes import read as read_changes
from services.writer.model.targets import Target
from services.writer.persist import landing_tables
from services.writer.postgres.database import Database
from services.writer.settle.event_type_pauses import PausePolicy
from services.writer.settle.no_longer_routed import origins_of
from services.writer.settle.settlement import SettlementContext
from services.writer.settle.waiting_table import WaitingEvents
from shared.errors import UserError
from shared.kafka_read.offsets import Partition
from shared.kafka_read.records import PartitionSlice
from shared.parse.parse import read


def context(conn: connection, database: Database, taken: Sequence[WaitingEvents]) -> SettlementContext:
    """Return the context of a settlement of `taken`, in which each partition has one topic generation."""
    return SettlementContext(
        conn=conn,
        database=database,
        topic_ids={t.partition: t.topic_id for t in taken},
        records=_records(taken),
        pause_policy=PausePolicy(),
        keeps_log=True,
    )


def rows(target: Target, taken: Sequence[WaitingEvents]) -> tuple[pa.Table, list[tuple[pa.Table, UserError]]]:
    """Return the rows for `target`, and the origins and errors of records that cannot be parsed.

    A later version of the writer may parse more strictly than the one that let the events wait.
    """
    batches, rejected = [], []
    for t in taken:
        values = t.records.column("value")
        events = read_changes(values.to_pylist())[0] if target.holds_changes else read(values)
        for at, error in events.errors.items():
            rejected.append((pa.Table.from_batches([origins_of(t.records.slice(at, 1))]), error))
        batches.append(_without(events.errors, landing_tables.rows(t.records, events.columns)))
    return pa.Table.from_batches(batches), rejected


def identified(taken: Sequence[WaitingEvents]) -> pa.Table:
    """Return the origins of the events and, if they can be parsed, their ids, names and versions."""
    batches = []
    for t in taken:
        rows_of, events = origins_of(t.records), read(t.records.column("value"))
        for column, name in (("_id", "id"), ("_event_name", "event_name"), ("_version", "version")):
            rows_of = rows_of.append_column(column, events.columns.column(name))
        batches.append(rows_of)
    return pa.Table.from_batches(batches)


def _without(at: Collection[int], rows_of: pa.RecordBatch) -> pa.RecordBatch:
    if not at:
        return rows_of
    remaining = [i for i in range(len(rows_of)) if i not in at]
    return rows_of.take(pa.array(remaining, pa.int64()))


def _records(taken: Sequence[WaitingEvents]) -> Callable[[Partition, list[int]], pa.Table]:
    def records_at(partition: Partition, offsets: list[int]) -> pa.Table:
        runs = [PartitionSlice(t.partition, t.records) for t in taken if t.partition == partition]
        return pa.Table.from_batches([run.only(offsets).rows for run in runs])

    return records_at
