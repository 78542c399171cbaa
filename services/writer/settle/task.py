"""What a Spark worker does with its ranges: the writer's flow, read top to bottom.

One task, one transaction per database: lock the ledger rows of the ranges, write rows and
outcomes, advance, commit.  A task that Spark runs twice finds its ledger rows ahead and
skips.
"""

import gc
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from services.writer.model.offsets import Partition
from services.writer.model.records import PartitionSlice, rows_by_topic, runs, values_of
from services.writer.model.targets import Target
from services.writer.model.timings import StepTimings
from services.writer.park.diverted_topic import divert
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.settle import event_log, holds, ledger, without_target
from services.writer.settle.interleave import in_all
from services.writer.settle.settlement import (
    BlockedError,
    SerializationConflictError,
    Settlement,
    UnforeseenError,
    Work,
    watch,
)
from services.writer.settle.sort_apart import take_each
from services.writer.settle.strays import Stray, park, strays
from services.writer.settle.work_order import TaskReport, WorkOrder, as_arrow
from services.writer.sort.route_lookup import lookup_for
from services.writer.sort.sort import Sorted, Unroutable, sort
from shared import failpoints, logs
from shared.errors import DATABASE_UNAVAILABLE, NOT_CONFIGURED, InfrastructureError, UserError
from shared.steps import Step

#: How often a transaction that lost a race is begun again before the race's table counts as blocked.
_RACES: Final = 3


def settle(order: WorkOrder, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Settle every range of which `batches` hold a record; yields the task's report.

    A database's failure rolls back that database's part and is reported, not raised: the
    others land, and the driver decides whether to try again, divert or exit.
    """
    logs.set_up_worker("writer")
    task = Task(order)
    for batch in batches:
        failpoints.meet("writer.read", [batch.column("value")])
        task.take_each(list(runs(batch)))
    try:
        task.see_all_known()
        task.park_unroutable()
        task.divert()
    except InfrastructureError as e:
        yield as_arrow(task.refusal(e))
        return
    in_all(order.landing, task.land)
    yield as_arrow(task.report())
    _leave_modules_alone()


def settle_given(
    order: WorkOrder, arrivals: bytes, nothing: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """`settle` for records that the driver has read: `arrivals` is an Arrow stream of them.

    What Spark sends is read to its end: else it ends the worker, and with it its connections.
    """
    for _ in nothing:
        pass
    return settle(order, pa.ipc.open_stream(arrivals))


@cache
def _leave_modules_alone() -> None:
    """Take all that was imported out of the garbage collector's sight, after a process's first task.

    PySpark's daemon collects after every task: 40 ms and more for what never becomes garbage.
    """
    gc.collect()
    gc.freeze()


class Task:
    """The ranges of one task, between their first record and their commit."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order
        self._read: dict[Partition, TaskReport] = {}
        self._databases: dict[tuple[str, Partition], TaskReport] = {}
        self._runs: dict[Partition, list[PartitionSlice]] = defaultdict(list)
        self._rows: dict[Target, list[tuple[Partition, pa.RecordBatch]]] = defaultdict(list)
        self._unroutable: list[tuple[Partition, Unroutable]] = []
        self._strays: list[Stray] = []
        self._stopwatch = StepTimings()

    def take(self, read: Sequence[PartitionSlice]) -> None:
        """FILTER and SORT the records of what was READ."""
        with self._stopwatch.timed_by_topic(Step.FILTER, rows_by_topic(read)):
            wanted = [run.wanted() for run in read]
        with self._stopwatch.timed_by_topic(Step.SORT, rows_by_topic(wanted)):
            failpoints.meet("writer.sort", values_of(wanted))
            found = list(sort(wanted, self._order.routes))
        for run, ours, events in zip(read, wanted, found, strict=True):
            self._note(run, ours, events)

    def take_each(self, read: Sequence[PartitionSlice]) -> None:
        """`take`, with each event parked that makes it raise for a reason that nobody foresaw."""
        for run, verdict in take_each(self.take, read):
            self._note(run, run, verdict)

    def _note(self, run: PartitionSlice, wanted: PartitionSlice, events: Sorted) -> None:
        for target, rows in events.tables.items():
            self._rows[target].append((run.partition, rows))
        self._unroutable += [(run.partition, u) for u in events.unroutable]
        self._runs[run.partition].append(wanted)
        line = self._read.setdefault(run.partition, TaskReport(*run.partition))
        line.read += len(run)
        line.size += run.rows.nbytes
        line.filtered += len(run) - len(wanted)
        line.unroutable += events.events_unroutable()
        line.refused += len(events.unroutable)

    def expect(self, database: Database) -> None:
        """All that was taken waited for `database`: what is not sorted there any more is parked there."""
        routing = lookup_for(self._order.routes)
        for run in (run for pieces in self._runs.values() for run in pieces):
            sent = self._offsets_for(database.name, run)
            refused = [u for p, u in self._unroutable if p == run.partition]
            self._strays += strays(run, sent, refused, database.name, routing)

    def see_all_known(self) -> None:
        """Raises `InfrastructureError`: a row that neither lands nor waits anywhere would be lost."""
        if unknown := {target.database for target in self._rows} - self._order.databases:
            raise InfrastructureError(
                NOT_CONFIGURED, f"events are routed to {', '.join(sorted(unknown))}, which is not configured"
            )

    def park_unroutable(self) -> None:
        """Events that no database decides about go to the topic before their offset settles."""
        self._meet("writer.park")
        without_target.park(self._order, self._unroutable)
        self._say(event_log.refused(p, u.offset, u.error) for p, u in self._unroutable)

    def divert(self) -> None:
        """The events of databases that are out go to Kafka, to land when the database returns."""
        for name in self._order.diverted:
            waiting = [
                run.only(self._offsets_for(name, run)) for pieces in self._runs.values() for run in pieces
            ]
            failpoints.meet("writer.divert", values_of(waiting))
            found = divert(self._order.brokers, name, waiting)
            self._say(
                entry
                for target, pieces in self._rows.items()
                if target.database == name
                for _, rows in pieces
                for entry in event_log.persisted(target, rows, None)
            )
            for partition in self._read:
                line = self._line(name, partition)
                line.diverted, line.diverted_from = found.get(partition, (0, -1))

    def _offsets_for(self, database: str, run: PartitionSlice) -> set[int]:
        """The offsets of `run` whose events go to `database`."""
        return {
            offset
            for target, pieces in self._rows.items()
            if target.database == database
            for partition, rows in pieces
            if partition == run.partition
            for offset in rows.column("_offset").to_pylist()
        }

    def land(self, database: Database) -> None:
        """PERSIST the rows of `database` in one transaction, or none of them.

        A table that takes no rows now loses the transaction: it is begun again, and its
        events wait.
        """
        blocked: dict[Target, BlockedError] = {}
        apart: set[Target] = set()
        races = 0
        while True:
            try:
                self._land(database, blocked, apart)
            except BlockedError as e:
                blocked[e.target] = e
            except UnforeseenError as e:
                apart.add(e.target)
            except SerializationConflictError as e:
                races += 1
                if races > _RACES:  # always the same one: no other's matter
                    blocked[e.blocked.target], races = e.blocked, 0
            except InfrastructureError as e:
                self._fail(database, e.fault.code, e.detail)
                return
            except UserError as e:  # not a row's fault: persist() parks those
                self._fail(database, DATABASE_UNAVAILABLE.code, e.detail)
                return
            else:
                return

    def _land(
        self, database: Database, blocked: Mapping[Target, BlockedError], apart: Collection[Target]
    ) -> None:
        ranges = [self._order.ranges[p] for p in self._read]
        with transaction(database, "land") as conn:
            settled = ledger.lock(conn, ranges, self._order.epoch)
            topic_ids = {r.partition: r.topic_id for r in ranges}
            work = Work(
                conn,
                database,
                topic_ids,
                self._records,
                self._order.pause_policy,
                self._stopwatch,
                self._order.log_events,
            )
            of_it = {t: pieces for t, pieces in sorted(self._rows.items()) if t.database == database.name}
            held = holds.look(conn, {t: [rows for _, rows in pieces] for t, pieces in of_it.items()})
            settlement = Settlement(work, watch(held, blocked), apart)
            for target, pieces in of_it.items():
                rows = pa.Table.from_batches([_since(rows, settled[p]) for p, rows in pieces])
                if rows.num_rows:
                    settlement.land(target, rows)
            park(self._strays, settlement, settled)
            failpoints.reach("writer.after_copy")
            self._meet("writer.keep")
            settlement.keep()
            fresh = [r for r in ranges if settled[r.partition] < r.end]
            ledger.advance(conn, fresh, self._order.epoch, self._order.routes.digest)
            failpoints.reach("writer.before_commit")
        failpoints.reach("writer.after_commit")
        self._say(settlement.said)
        for p in self._read:
            self._databases[database.name, p] = TaskReport(
                *p,
                database=database.name,
                rows=settlement.rows[p],
                parked=settlement.parked[p],
                waiting=settlement.waiting[p],
            )

    def refusal(self, error: InfrastructureError) -> list[TaskReport]:
        """The report of a task that could not put on Kafka what must be there before it lands."""
        return [TaskReport(*p, failure=error.fault.code, detail=error.detail) for p in self._read]

    def report(self) -> list[TaskReport]:
        """What became of every range, in every database."""
        self._meet("writer.report")
        lines = [*self._read.values(), *self._databases.values()]
        if lines:  # ranges may hold no record at all: aborted transactions, compaction
            lines[0].work = self._stopwatch.as_json()
        return lines

    def _line(self, database: str, partition: Partition) -> TaskReport:
        return self._databases.setdefault((database, partition), TaskReport(*partition, database=database))

    def _fail(self, database: Database, code: str, detail: str) -> None:
        for partition in self._read:
            self._databases[database.name, partition] = TaskReport(
                *partition, database=database.name, failure=code, detail=detail
            )

    def _records(self, partition: Partition, offsets: list[int]) -> pa.Table:
        """The records at `offsets`, as Kafka had them."""
        found = pa.Table.from_batches([run.only(offsets).rows for run in self._runs[partition]])
        if found.num_rows != len(offsets):
            raise LookupError(f"{partition}: not all of {offsets} are in this task")
        return found

    def _meet(self, place: str) -> None:
        failpoints.meet(place, values_of(run for pieces in self._runs.values() for run in pieces))

    def _say(self, entries: Iterable[event_log.Entry]) -> None:
        if self._order.log_events:
            event_log.write(entries)


def _since(rows: pa.RecordBatch, offset: int) -> pa.RecordBatch:
    """The rows that are not settled: at `offset` and after it."""
    return rows.slice(int(np.searchsorted(rows.column("_offset").to_numpy(), offset)))
