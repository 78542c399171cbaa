"""What waited in its own database, in the words of a settlement: its rows, its records, its transaction."""

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
from psycopg2.extensions import connection

from services.writer.model.offsets import Partition
from services.writer.model.records import PartitionSlice
from services.writer.parse.parse import read
from services.writer.persist import landing
from services.writer.postgres.database import Database
from services.writer.settle.pause_policy import PausePolicy
from services.writer.settle.settlement import SettlementContext
from services.writer.settle.strays import origins_of
from services.writer.settle.waiting_table import WaitingEvents
from shared.errors import UserError


def context(conn: connection, database: Database, taken: Sequence[WaitingEvents]) -> SettlementContext:
    """Return what a settlement of `taken` works with; each partition is of one incarnation of its topic."""
    return SettlementContext(
        conn=conn,
        database=database,
        topic_ids={t.partition: t.topic_id for t in taken},
        records=_records(taken),
        pause_policy=PausePolicy(),
    )


def rows(taken: Sequence[WaitingEvents]) -> tuple[pa.Table, list[tuple[pa.Table, UserError]]]:
    """Return the rows of their table; and where those came from that read as no event, and why.

    They did when they were let wait: a later release may read more strictly.
    """
    batches, rejected = [], []
    for t in taken:
        events = read(t.records.column("value"))
        for at, error in events.errors.items():
            rejected.append((pa.Table.from_batches([origins_of(t.records.slice(at, 1))]), error))
        batches.append(_without(events.errors, landing.rows(t.records, events.columns)))
    return pa.Table.from_batches(batches), rejected


def origins(taken: Sequence[WaitingEvents]) -> pa.Table:
    """Return where they came from: all that parking asks of them."""
    return pa.Table.from_batches([origins_of(t.records) for t in taken])


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
