"""What a Spark worker does with its ranges: the writer's flow, read top to bottom.

One task, one transaction per database: lock the ledger rows of the ranges, write rows and
outcomes, advance, commit.  A task that Spark runs twice finds its ledger rows ahead and
skips.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from psycopg2.extensions import connection

from services.writer import ledger, outbox, user_errors
from services.writer.arrivals import Run, runs
from services.writer.divert import divert
from services.writer.orders import Line, WorkOrder, as_arrow
from services.writer.persist import Persisted, persist
from services.writer.pool import transaction
from services.writer.postgres import Database
from services.writer.ranges import Partition
from services.writer.sort import Unroutable, sort
from services.writer.targets import Target
from services.writer.user_errors import ParkedRecord
from shared import failpoints, wire
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError, UserError
from shared.outcomes import Outcome


def settle(order: WorkOrder, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Settle every range of which `batches` hold a record; yields the task's report.

    A database's failure rolls back that database's part and is reported, not raised: the
    others land, and the driver decides whether to try again, divert or exit.
    """
    task = Task(order)
    for batch in batches:
        for run in runs(batch):
            task.take(run)
    try:
        task.park_unroutable()
        task.divert()
    except InfrastructureError as e:
        yield as_arrow(task.refusal(e))
        return
    for database in order.landing:
        task.land(database)
    yield as_arrow(task.report())


class Task:
    """The ranges of one task, between their first record and their commit."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order
        self._read: dict[Partition, Line] = {}
        self._databases: dict[tuple[str, Partition], Line] = {}
        self._runs: dict[Partition, list[Run]] = defaultdict(list)
        self._rows: dict[Target, list[tuple[Partition, pa.RecordBatch]]] = defaultdict(list)
        self._unroutable: list[tuple[Partition, Unroutable]] = []

    def take(self, run: Run) -> None:
        """READ, FILTER and SORT the records of one run."""
        wanted = run.wanted()
        events = sort(wanted, self._order.routes)
        for target, rows in events.tables.items():
            self._rows[target].append((run.partition, rows))
        self._unroutable += [(run.partition, u) for u in events.unroutable]
        self._runs[run.partition].append(wanted)
        line = self._read.setdefault(run.partition, Line(*run.partition))
        line.read += len(run)
        line.filtered += len(run) - len(wanted)
        line.unroutable += events.events_unroutable()
        line.refused += len(events.unroutable)

    def park_unroutable(self) -> None:
        """Events that no database decides about go to the topic before their offset settles."""
        user_errors.publish(
            self._order.bootstrap,
            [
                ParkedRecord(
                    p,
                    u.offset,
                    u.destination,
                    u.value,
                    user_errors.reason(u.error, p, u.offset, u.destination),
                )
                for p, u in self._unroutable
            ],
        )

    def divert(self) -> None:
        """The events of databases that are out go to Kafka, to land when the database returns."""
        for name in self._order.diverted:
            waiting = [
                run.only(self._offsets_for(name, run)) for pieces in self._runs.values() for run in pieces
            ]
            found = divert(self._order.bootstrap, name, waiting)
            for partition in self._read:
                line = self._line(name, partition)
                line.diverted, line.diverted_from = found.get(partition, (0, -1))

    def _offsets_for(self, database: str, run: Run) -> set[int]:
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
        """PERSIST the rows of `database` in one transaction, or none of them."""
        ranges = [self._order.ranges[p] for p in self._read]
        try:
            with transaction(database, "land") as conn:
                settled = ledger.lock(conn, ranges, self._order.epoch)
                tallies, remarks = self._land_tables(conn, database, settled)
                failpoints.reach("writer.after_copy")
                ledger.count(conn, tallies)
                ledger.remark(conn, remarks)
                ledger.advance(conn, [r for r in ranges if settled[r.partition] < r.end], self._order.epoch)
                failpoints.reach("writer.before_commit")
            failpoints.reach("writer.after_commit")
        except InfrastructureError as e:
            self._fail(database, e.fault.code, e.detail)
        except UserError as e:  # not a row's fault: persist() parks those
            self._fail(database, DATABASE_UNAVAILABLE.code, e.detail)

    def refusal(self, error: InfrastructureError) -> list[Line]:
        """The report of a task that could not put on Kafka what must be there before it lands."""
        return [Line(*p, failure=error.fault.code, detail=error.detail) for p in self._read]

    def report(self) -> list[Line]:
        """What became of every range, in every database."""
        return [*self._read.values(), *self._databases.values()]

    def _land_tables(
        self, conn: connection, database: Database, settled: dict[Partition, int]
    ) -> "tuple[Counter[ledger.Tally], Counter[ledger.Remark]]":
        tallies: Counter[ledger.Tally] = Counter()
        remarks: Counter[ledger.Remark] = Counter()
        for partition in self._read:
            self._line(database.name, partition)
        for target, pieces in sorted(self._rows.items()):
            if target.database != database.name:
                continue
            rows = pa.Table.from_batches([_since(rows, settled[p]) for p, rows in pieces])
            if rows.num_rows:
                done = persist(conn, database, target, rows)
                for partition, n in done.rows.items():
                    self._line(database.name, partition).rows += n
                self._park(conn, target, done)
                tallies += self._tally(target, done)
                remarks += self._remarks(target, done)
        return tallies, remarks

    def _line(self, database: str, partition: Partition) -> Line:
        return self._databases.setdefault((database, partition), Line(*partition, database=database))

    def _fail(self, database: Database, code: str, detail: str) -> None:
        for partition in self._read:
            self._databases[database.name, partition] = Line(
                *partition, database=database.name, failure=code, detail=detail
            )

    def _park(self, conn: connection, target: Target, done: Persisted) -> None:
        destination = f"{target.database}.{target}"
        for p in done.parked:
            record = ParkedRecord(
                p.partition,
                p.offset,
                destination,
                self._record(p.partition, p.offset).column("value")[0].as_py(),
                user_errors.reason(p.error, p.partition, p.offset, destination),
            )
            outbox.add(conn, self._order.ranges[p.partition].topic_id, record)
        for partition, n in done.parked_by_partition().items():
            self._line(target.database, partition).parked += n

    def _record(self, partition: Partition, offset: int) -> pa.RecordBatch:
        """The record at `offset`, as Kafka had it."""
        for run in self._runs[partition]:
            found = run.since(offset).rows
            if found.num_rows and found.column("offset")[0].as_py() == offset:
                return found.slice(0, 1)
        raise LookupError(f"{partition.topic}/{partition.number} has no offset {offset} in this task")

    def _tally(self, target: Target, done: Persisted) -> "Counter[ledger.Tally]":
        if target.table == wire.PROBE_EVENT:  # outside of all counts
            return Counter()
        outcomes = {
            Outcome.LANDED: done.landed,
            Outcome.DUPLICATE: done.duplicates(),
            Outcome.PARKED: done.parked_by_partition(),
        }
        return Counter(
            {
                ledger.Tally(self._order.ranges[p].topic_id, p, str(target), outcome): n
                for outcome, by_partition in outcomes.items()
                for p, n in by_partition.items()
            }
        )

    def _remarks(self, target: Target, done: Persisted) -> "Counter[ledger.Remark]":
        """What is worth a look at `target`, counted for one of its partitions: a task has them all."""
        found = {
            "unkeyed": done.landed.total() if done.unkeyed else 0,
            "discarded_fields": done.discarded_fields,
        }
        first = min(done.rows)
        topic_id = self._order.ranges[first].topic_id
        return Counter({ledger.Remark(topic_id, first, str(target), r): n for r, n in found.items() if n})


def _since(rows: pa.RecordBatch, offset: int) -> pa.RecordBatch:
    """The rows that are not settled: at `offset` and after it."""
    return rows.slice(int(np.searchsorted(rows.column("_offset").to_numpy(), offset)))
