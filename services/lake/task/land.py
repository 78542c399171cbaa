"""The flow of a task: read its ranges, select and sort the events of the lake, and commit each table once."""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import lru_cache

from services.lake.routes.lake_routes import lookup_for
from services.lake.task.delta_commit import Pending, commit
from services.lake.task.order import LakeOrder, LakeReport, RangeReport, TableReport
from shared import logs
from shared.errors import InfrastructureError
from shared.kafka_read.decompress import CorruptBatchError
from shared.kafka_read.fetch import RangeUnreadableError
from shared.kafka_read.offsets import Partition
from shared.kafka_read.range_reader import RangeReader
from shared.kafka_read.records import PartitionSlice, wanted_of
from shared.kafka_security import Brokers
from shared.parse.slices import parse


def land_share(
    order: LakeOrder, shares: Sequence[Sequence[Partition]], numbers: Iterator[int]
) -> list[LakeReport]:
    """Land this task's share of the ranges of `order`, and return its report.

    `numbers`: the indexes of this task's `shares`.  The iterator is read to its end: else Spark ends the
    worker, and with it its connections.
    """
    logs.set_up_worker("lake")
    mine = [p for number in numbers for p in shares[number]]
    ranges = [order.ranges[p] for p in mine]
    try:
        return [land(order, mine, _reader_of(order.brokers).read(ranges))]
    except InfrastructureError as e:  # of Kafka
        return [LakeReport(failure=e.fault.code, detail=e.detail)]
    except (CorruptBatchError, RangeUnreadableError) as e:
        if len(mine) > 1:
            raise  # the driver repeats the ranges one by one
        return [LakeReport(ranges=[RangeReport(mine[0], unreadable=str(e))])]


def land(order: LakeOrder, mine: Sequence[Partition], records: Generator[list[PartitionSlice]]) -> LakeReport:
    """Land the `records` of the partitions `mine`, and return the report.

    The failure of a table is reported, and not raised: the other tables land.
    """
    task = Task(order, mine)
    with closing(records):
        for piece in records:
            task.add(piece)
    return task.finish()


@lru_cache(maxsize=1)
def _reader_of(brokers: Brokers) -> RangeReader:
    """Return the reader of this worker process, created after its fork."""
    return RangeReader(brokers)


class Task:
    """The rows of one task, between their first record and their commit."""

    def __init__(self, order: LakeOrder, mine: Sequence[Partition]) -> None:
        self._order = order
        self._lookup = lookup_for(order.routes)
        self._ranges = {p: RangeReport(p) for p in mine}
        #: The offset after the last record of each partition that was sorted.
        self._ends: dict[Partition, int] = {}
        self._pending: dict[str, Pending] = {}
        self._tables: dict[str, TableReport] = {}

    def add(self, piece: Sequence[PartitionSlice]) -> None:
        """Sort the records of `piece`, and commit all tables if many bytes wait."""
        for part in piece:
            self._ranges[part.partition].read += len(part)
            if len(part):
                last = part.rows.column("offset")[-1].as_py()
                self._ends[part.partition] = max(last + 1, self._ends.get(part.partition, 0))
        wanted = [part for part in wanted_of(piece) if len(part)]
        landed = self._sort(wanted) if wanted else Counter[Partition]()
        for part in piece:
            self._ranges[part.partition].filtered += len(part)
        for partition, count in landed.items():
            self._ranges[partition].filtered -= count
        if sum(each.size for each in self._pending.values()) >= self._order.flush_bytes:
            self._commit(self._ends)

    def finish(self) -> LakeReport:
        """Commit the remaining rows with the ends of the ranges, and return the report."""
        self._commit({p: self._order.ranges[p].end for p in self._ranges})
        return LakeReport(list(self._tables.values()), list(self._ranges.values()))

    def _sort(self, wanted: Sequence[PartitionSlice]) -> Counter[Partition]:
        """Add the rows of each slice to its tables; return the number of events for any table."""
        counts: Counter[Partition] = Counter()
        parsed, start = parse(wanted), 0
        for part in parsed.slices:
            events = parsed.events.slice(start, len(part))
            rows = parsed.rows.slice(start, len(part))
            start += len(part)
            for name, indices in events.by_name().items():
                table = self._lookup.table_of(name, part.partition.topic)
                if table is None:
                    continue
                counts[part.partition] += len(indices)
                whole = len(indices) == len(part)
                pending = self._pending.setdefault(table.name, Pending(table))
                pending.add(part.partition, rows if whole else rows.take(indices))
        return counts

    def _commit(self, ends: dict[Partition, int]) -> None:
        """Commit the pending rows of each table; a table that has failed takes no more rows."""
        for name, pending in self._pending.items():
            report = self._tables.setdefault(name, TableReport(name))
            if report.failure is None:
                try:
                    commit(self._order, pending, {p: ends[p] for p in pending.partitions}, report)
                except InfrastructureError as e:
                    report.failure, report.detail = e.fault.code, e.detail
            if report.failure is not None:
                for partition in pending.partitions:
                    self._ranges[partition].failed_table = self._ranges[partition].failed_table or name
        self._pending.clear()
