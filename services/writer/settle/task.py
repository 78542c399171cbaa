"""Settles the ranges of one Spark task: the writer's flow, read top to bottom.

Invariant: a task has one transaction per database, which locks the ledger rows of its ranges,
writes rows and outcomes, advances the ledger over all ranges, and commits (the model's rules
`epoch`, `compare`, `all_advance` and `judged_alone`).  If Spark runs a task twice, the second run finds
the ledger rows ahead, and skips the ranges.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from services.writer.model import commit_delays
from services.writer.model.targets import Target
from services.writer.model.timings import StepTimings
from services.writer.park import outbox, parked_topic
from services.writer.park.diverted_topic import divert
from services.writer.park.parked_topic import ParkedRecord
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.settle import event_log, holds, ledger
from services.writer.settle.no_longer_routed import NoLongerRouted, find_no_longer_routed, park
from services.writer.settle.outcome_counts import OutcomeCounts
from services.writer.settle.retry_reasons import (
    BlockedError,
    SerializationConflictError,
    UnforeseenError,
)
from services.writer.settle.settlement import Settlement, SettlementContext
from services.writer.settle.sort_apart import sort_one_by_one
from services.writer.settle.work_order import TaskReport, WorkOrder
from services.writer.sort.route_lookup import lookup_for
from services.writer.sort.sort import Sorted, Unroutable, sort
from shared import failpoints, logs
from shared.errors import (
    DATABASE_UNAVAILABLE,
    NOT_CONFIGURED,
    InfrastructureError,
    OnrampError,
    UserError,
)
from shared.kafka_read.offsets import Partition
from shared.kafka_read.range_reader import RangeReader
from shared.kafka_read.records import PartitionSlice, rows_by_topic, values_of, wanted_of
from shared.kafka_security import Brokers
from shared.path_steps import Step

#: Restarts of a transaction after serialization conflicts before the table counts as blocked.
_RACES: Final = 3
#: Seconds that the databases of a task may take, all together, before the remaining ones start at once.
_HEAD_START_SECONDS: Final = 0.2


def settle_share(
    order: WorkOrder, shares: Sequence[Sequence[Partition]], numbers: Iterator[int]
) -> list[TaskReport]:
    """Read this task's share of the ranges of `order`, settle it, and return the task's report.

    `numbers`: the indexes of this task's `shares`.  The iterator is read to its end: else Spark ends the
    worker, and with it its connections.
    """
    began = time.monotonic()
    logs.set_up_worker("writer")
    mine = [order.ranges[p] for number in numbers for p in shares[number]]
    reports = settle(order, _reader_of(order.brokers).read(mine))
    reports[:1] = [replace(first, slot_seconds=time.monotonic() - began) for first in reports[:1]]
    return reports


def settle(order: WorkOrder, records: Generator[list[PartitionSlice]]) -> list[TaskReport]:
    """Settle the ranges of `order` from their `records`, and return the report.

    A database's failure rolls back that database's transaction and is reported, not raised.  The
    others land, and the driver decides whether to retry, divert or exit.
    """
    task = Task(order)
    try:
        with closing(records):
            for read in records:
                failpoints.meet("writer.read", values_of(read))
                task.sort_each(read)
        task.check_databases()
        task.park_unroutable()
        task.divert()
    except InfrastructureError as e:
        return [TaskReport(*p, failure=e.fault.code, detail=e.detail) for p in order.ranges]
    _for_each_database(order.landing, task.land)
    return task.report()


def _for_each_database(databases: Sequence[Database], land: Callable[[Database], None]) -> None:
    """Call `land` for each of `databases`: one after the other while they are quick, else at once.

    Because of Python's global lock, parallel work gains little while all databases answer.  But a database
    that does not answer must not delay the others.  A single database needs no thread.
    """
    if len(databases) < 2:  # noqa: PLR2004
        for database in databases:
            land(database)
        return
    head_start_ends = time.monotonic() + _HEAD_START_SECONDS
    futures: list[Future[None]] = []
    with ThreadPoolExecutor(len(databases), "land") as threads:
        for database in databases:
            futures.append(threads.submit(land, database))
            wait(futures[-1:], max(head_start_ends - time.monotonic(), 0))
            if futures[-1].done() and futures[-1].exception():
                break
    for future in futures:
        future.result()


@lru_cache(maxsize=1)
def _reader_of(brokers: Brokers) -> RangeReader:
    """Return the reader of this worker process, created after its fork."""
    return RangeReader(brokers)


class Task:
    """The ranges of one task, between their first record and their commit."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order
        self._read: dict[Partition, TaskReport] = {}
        self._databases: dict[tuple[str, Partition], TaskReport] = {}
        self._slices: dict[Partition, list[PartitionSlice]] = defaultdict(list)
        self._rows: dict[Target, list[tuple[Partition, pa.RecordBatch]]] = defaultdict(list)
        self._unroutable: list[tuple[Partition, Unroutable]] = []
        self._no_longer_routed: list[NoLongerRouted] = []
        self._timings = StepTimings()
        self._delays: list[commit_delays.CommitDelays] = []
        self._outcomes = OutcomeCounts()

    def filter_and_sort(self, parts: Sequence[PartitionSlice]) -> None:
        """FILTER and SORT the records of `parts`."""
        with self._timings.timed_by_topic(Step.FILTER, rows_by_topic(parts)):
            wanted = wanted_of(parts)
        with self._timings.timed_by_topic(Step.SORT, rows_by_topic(wanted)):
            failpoints.meet("writer.sort", values_of(wanted))
            sorted_parts = list(sort(wanted, self._order.routes))
        for part, filtered, events in zip(parts, wanted, sorted_parts, strict=True):
            self._add_sorted(part, filtered, events)

    def sort_each(self, read: Sequence[PartitionSlice]) -> None:
        """FILTER and SORT; park each event that raises an unexpected exception alone."""
        for part, events in sort_one_by_one(self.filter_and_sort, read):
            self._add_sorted(part, part, events)

    def _add_sorted(self, part: PartitionSlice, wanted: PartitionSlice, events: Sorted) -> None:
        for target, rows in events.tables.items():
            self._rows[target].append((part.partition, rows))
        self._unroutable += [(part.partition, u) for u in events.unroutable]
        self._slices[part.partition].append(wanted)
        report = self._read.setdefault(part.partition, TaskReport(*part.partition))
        report.read += len(part)
        report.size += part.size
        report.filtered += len(part) - len(wanted)
        report.unroutable += events.events_unroutable()
        report.refused += len(events.unroutable)

    def collect_no_longer_routed(self, database: Database) -> None:
        """Collect events that waited for `database` and are no longer routed to it, to be parked in it."""
        routing = lookup_for(self._order.routes)
        for part in (part for pieces in self._slices.values() for part in pieces):
            sent = self._offsets_for(database.name, part)
            refused = [u for p, u in self._unroutable if p == part.partition]
            self._no_longer_routed += find_no_longer_routed(part, sent, refused, database.name, routing)

    def check_databases(self) -> None:
        """Raise `InfrastructureError` when a row's database is not in the order: it would be lost.

        The model's rule `unknown_raises`.
        """
        if unknown := {target.database for target in self._rows} - self._order.databases:
            raise InfrastructureError(
                NOT_CONFIGURED, f"events are routed to {', '.join(sorted(unknown))}, which is not configured"
            )

    def park_unroutable(self) -> None:
        """Publish events without a database to the topic, before their offsets settle (`acked`)."""
        self._reach("writer.park")
        park_unroutable(self._order, self._unroutable)
        self._log([event_log.Parked([(p, u.offset, u.identity.id, u.error) for p, u in self._unroutable])])

    def divert(self) -> None:
        """Divert the events of unreachable databases to Kafka, and wait for the acknowledgement."""
        for name in self._order.diverted:
            waiting = [
                part.only(self._offsets_for(name, part))
                for pieces in self._slices.values()
                for part in pieces
            ]
            failpoints.meet("writer.divert", values_of(waiting))
            diverted = divert(self._order.brokers, name, waiting)
            self._log(
                [
                    event_log.Settled(target, rows)
                    for target, pieces in self._rows.items()
                    if target.database == name
                    for _, rows in pieces
                ]
            )
            for partition in self._read:
                report = self._report_of(name, partition)
                report.diverted, report.diverted_from = diverted.get(partition, (0, -1))

    def _offsets_for(self, database: str, part: PartitionSlice) -> set[int]:
        """Return the offsets of `part` whose events go to `database`."""
        return {
            offset
            for target, pieces in self._rows.items()
            if target.database == database
            for partition, rows in pieces
            if partition == part.partition
            for offset in rows.column("_offset").to_pylist()
        }

    def land(self, database: Database) -> None:
        """PERSIST the rows of `database` in one transaction, or none of them.

        A table that takes no rows now fails the transaction.  The transaction starts again, and the
        table's events wait.
        """
        blocked: dict[Target, BlockedError] = {}
        one_by_one: set[Target] = set()
        races = 0
        while True:
            try:
                self._land(database, blocked, one_by_one)
            except BlockedError as e:
                blocked[e.target] = e
            except UnforeseenError as e:
                one_by_one.add(e.target)
            except SerializationConflictError as e:
                races += 1
                if races > _RACES:  # the table keeps conflicting: the others land without it
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
        self, database: Database, blocked: Mapping[Target, BlockedError], one_by_one: Collection[Target]
    ) -> None:
        ranges = [self._order.ranges[p] for p in self._read]
        with transaction(database, "land") as conn:
            next_offsets = ledger.lock(conn, ranges, self._order.epoch)
            topic_ids = {r.partition: r.topic_id for r in ranges}
            work = SettlementContext(
                conn=conn,
                database=database,
                topic_ids=topic_ids,
                records=self._records,
                pause_policy=self._order.pause_policy,
                timings=self._timings,
                keeps_log=self._order.event_lines > 0,
            )
            rows_of = {t: pieces for t, pieces in sorted(self._rows.items()) if t.database == database.name}
            tables = {t: [_since(rows, next_offsets[p]) for p, rows in at] for t, at in rows_of.items()}
            current_holds = holds.read_shared(conn, tables)
            settlement = Settlement(work, current_holds.block(blocked), one_by_one)
            settlement.land_together(tables)
            for target, pieces in tables.items():
                if any(map(len, pieces)):
                    settlement.land(target, pa.Table.from_batches(pieces))
            park(self._no_longer_routed, settlement, next_offsets)
            failpoints.reach("writer.after_copy")
            self._reach("writer.keep")
            settlement.flush()
            unsettled = [r for r in ranges if next_offsets[r.partition] < r.end]
            ledger.advance(conn, unsettled, self._order.epoch, self._order.routes.digest)
            failpoints.reach("writer.before_commit")
        failpoints.reach("writer.after_commit")
        self._delays += commit_delays.measure(settlement.landed, time.time())
        self._outcomes.add(database.name, settlement.tallies)
        self._log(settlement.settled)
        for p in self._read:
            self._databases[database.name, p] = TaskReport(
                *p,
                database=database.name,
                rows=settlement.rows[p],
                parked=settlement.parked[p],
                waiting=settlement.waiting[p],
                seconds=settlement.seconds[p],
            )

    def report(self) -> list[TaskReport]:
        """Return the reports of every range, in every database."""
        self._reach("writer.report")
        reports = [*self._read.values(), *self._databases.values()]
        if reports:  # ranges may have no record at all: aborted transactions, compaction
            reports[0].work = self._timings.as_json()
            reports[0].delays = commit_delays.as_json(self._delays)
            reports[0].outcomes = self._outcomes.as_json()
        return reports

    def _report_of(self, database: str, partition: Partition) -> TaskReport:
        return self._databases.setdefault((database, partition), TaskReport(*partition, database=database))

    def _fail(self, database: Database, code: str, detail: str) -> None:
        for partition in self._read:
            self._databases[database.name, partition] = TaskReport(
                *partition, database=database.name, failure=code, detail=detail
            )

    def _records(self, partition: Partition, offsets: list[int]) -> pa.Table:
        """Return the records at `offsets`, as they were on Kafka.  Raises `LookupError`."""
        records = pa.Table.from_batches([part.only(offsets).rows for part in self._slices[partition]])
        if records.num_rows != len(offsets):
            raise LookupError(f"{partition}: not all of {offsets} are in this task")
        return records

    def _reach(self, place: str) -> None:
        failpoints.meet(place, values_of(part for pieces in self._slices.values() for part in pieces))

    def _log(self, pieces: Sequence[event_log.Piece]) -> None:
        event_log.write(self._order.event_lines, pieces)


def park_unroutable(order: WorkOrder, unroutable: Sequence[tuple[Partition, Unroutable]]) -> None:
    """PARK unroutable events: return when they are stored.  Raises `InfrastructureError`.

    An event too large for the topic goes to the outbox of any landing database, with its bytes and its
    reason.  The outbox publishes it as soon as an operator raises the topic's limit.
    """
    records = [
        ParkedRecord(
            p,
            u.offset,
            destination=u.destination,
            value=u.value,
            error=parked_topic.reason(
                u.error,
                p,
                u.offset,
                u.destination,
                topic_id=order.ranges[p].topic_id,
                identity=u.identity,
            ),
        )
        for p, u in unroutable
    ]
    unpublished = parked_topic.publish(order.brokers, records)
    if unpublished and not any(
        _add_to_outbox(database, order, unpublished.records) for database in order.landing
    ):
        raise unpublished.error


def _add_to_outbox(database: Database, order: WorkOrder, records: Sequence[ParkedRecord]) -> bool:
    """Return whether the outbox of `database` has stored the records.  A repeat has the same keys."""
    try:
        with transaction(database, "land") as conn:
            for record in records:
                outbox.add(conn, order.ranges[record.partition].topic_id, record)
    except OnrampError:  # the failure will show again when the database lands
        return False
    return True


def _since(rows: pa.RecordBatch, offset: int) -> pa.RecordBatch:
    """Return the rows at `offset` and after it, which are not settled."""
    return rows.slice(int(np.searchsorted(rows.column("_offset").to_numpy(), offset)))
