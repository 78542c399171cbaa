"""One task of a plan: reads its ranges, evaluates the events under both rules, and counts; see `try_share`.

The task has one connection to each database, and commits no writes.
"""

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import psycopg2
import pyarrow as pa

from services.writer.observe.job_progress import write_count
from services.writer.persist.row_results import PersistResult
from services.writer.persist.table_copies import Copies, Variant
from services.writer.persist.table_rights import UntriedError
from services.writer.plan.evaluate import Chunk, by_name
from services.writer.plan.outcome_diff import EventOutcomes, compare
from services.writer.plan.reasons import refusal
from services.writer.plan.rules import Rules, TableName
from services.writer.plan.survey import LANDS
from services.writer.plan.tally import SAMPLES, Newly, Outcomes, Sample, TaskTally, count
from services.writer.postgres.database import Database
from services.writer.postgres.error_faults import translate
from services.writer.postgres.pool import connected
from services.writer.settle.sort_apart import sort_one_by_one
from shared import logs
from shared.errors import InfrastructureError, OnrampError
from shared.kafka_read.decompress import CorruptBatchError
from shared.kafka_read.fetch import RangeUnreadableError
from shared.kafka_read.offsets import Partition, Range
from shared.kafka_read.range_reader import RangeReader
from shared.kafka_read.records import PartitionSlice, wanted_of
from shared.kafka_security import Brokers
from shared.mask import masked

#: Maximum failed chunks of a table in a task; afterwards the table is no longer tried.
_MAX_FAILURES: Final = 3
#: Events, and their bytes, that are evaluated together.
_AT_ONCE: Final = 20_000
_AT_ONCE_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOrder:
    """The input of all tasks of a plan."""

    old: Rules
    new: Rules
    #: The databases that could be queried before.
    databases: tuple[Database, ...]
    #: The reasons why the other databases could not, by name.
    out: Mapping[str, str]
    brokers: Brokers
    #: Patterns of the event names that are counted; all if empty.
    events: tuple[str, ...] = ()
    #: Pointers to payload fields whose shape samples do not show, by event name.
    personal: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: The folder to which tasks write their progress.
    progress: Path | None = None


def shares(ranges: Sequence[Range], tasks: int) -> list[list[Range]]:
    """Return an equal part of each range for each task; a range may be divided, as no event is settled."""
    out: list[list[Range]] = [[] for _ in range(tasks)]
    for each in ranges:
        cuts = [each.start + len(each) * n // tasks for n in range(tasks + 1)]
        for share, (start, end) in zip(out, pairwise(cuts), strict=True):
            if start < end:
                share.append(replace(each, start=start, end=end))
    return out


def try_share(
    order: TrialOrder, shares: Sequence[Sequence[Range]], numbers: Iterable[int]
) -> list[TaskTally]:
    """Try this task's share and return its counts; `numbers`: the indices of this task's `shares`."""
    logs.set_up_worker("writer")
    numbers = list(numbers)
    ranges = [each for number in numbers for each in shares[number]]
    reader = RangeReader(order.brokers)
    try:
        return [try_ranges(order, ranges, reader, numbers[0] if numbers else 0)]
    finally:
        reader.close()


def try_ranges(order: TrialOrder, ranges: Sequence[Range], reader: RangeReader, number: int = 0) -> TaskTally:
    """Evaluate the events of `ranges`, each of a partition of its own, under both rules; return the counts.

    `number`: the task's number.
    """
    tally = TaskTally()
    done = {each.partition: each.start for each in ranges}
    first = sum(done.values())
    with ExitStack() as stack:
        databases = _Databases(order, tally, stack)
        task = _Task(order, tally, databases)
        try:
            for read in _gathered(_read(reader, ranges, tally)):
                task.count(read)
                databases.drop()
                done |= {part.partition: _end(part) for part in read if len(part)}
                write_count(order.progress, number, sum(done.values()) - first)
        except InfrastructureError as e:
            tally.failure = e.detail
    return tally


class _Databases:
    """The copies in each reachable database, and the reasons why other databases are unreachable."""

    def __init__(self, order: TrialOrder, tally: TaskTally, stack: ExitStack) -> None:
        self._databases = {each.name: each for each in order.databases}
        self._out = dict(order.out)
        self._copies: dict[str, Copies] = {}
        self._failures: Counter[TableName] = Counter()
        self._tally = tally
        self._stack = stack

    def persist(self, variant: Variant, rows: pa.Table) -> PersistResult:
        """Write `rows` into a copy and roll back.  Raise `UntriedError`, and record the reason."""
        name = TableName(*variant.target[:3])
        reason = self._out.get(name.database)
        if self._failures[name] >= _MAX_FAILURES:
            reason = self._tally.untried[str(name)]
        try:
            return self._persist(name, variant, rows, reason)
        except UntriedError as e:
            self._tally.untried[str(name)] = str(e)
            raise

    def drop(self) -> None:
        """Drop all copies and their locks, before the task waits for Kafka."""
        for copies in self._copies.values():
            copies.drop()

    def _persist(
        self, name: TableName, variant: Variant, rows: pa.Table, reason: str | None
    ) -> PersistResult:
        """Write as `persist` does, unless there is a `reason` not to try."""
        if reason:
            raise UntriedError(reason)
        copies: Copies | None = None
        try:
            copies = self._of(name.database)
            return copies.persist(variant, rows)
        except InfrastructureError as e:
            reason = self._out[name.database] = e.detail
        except psycopg2.Error as e:
            reason = translate(e, self._databases[name.database]).detail
            if copies is None or copies.is_lost(e):
                self._out[name.database] = reason
        except UntriedError:
            self._failures[name] = _MAX_FAILURES
            raise
        except (OnrampError, MemoryError):
            raise
        except Exception as e:  # noqa: BLE001 - the other tables are tried
            reason = f"unexpected error {type(e).__name__}"
        self._failures[name] += 1
        if copies is not None and name.database not in self._out:
            copies.drop()
        raise UntriedError(reason)

    def _of(self, name: str) -> Copies:
        if name not in self._copies:
            database = self._databases[name]
            conn = self._stack.enter_context(connected(database, LANDS))
            self._copies[name] = Copies(conn, database)
            self._stack.callback(self._copies[name].drop)
        return self._copies[name]


class _Task:
    """Counts the outcomes of the events of some ranges under both rules."""

    def __init__(self, order: TrialOrder, tally: TaskTally, databases: _Databases) -> None:
        self._order = order
        self._tally = tally
        self._databases = databases

    def count(self, read: Sequence[PartitionSlice]) -> None:
        """Evaluate and count the records of `read`."""
        wanted = [each for each in wanted_of(read) if len(each)]
        records = sum(map(len, read))
        self._tally.read += records
        self._tally.filtered += records - sum(map(len, wanted))
        if not wanted:
            return
        for part, verdict in sort_one_by_one(self._evaluate, wanted):
            of_type = self._tally.of_type(f"(unreadable) on {part.partition.topic}")
            of_type.read += 1
            for side in (of_type.old, of_type.new):
                side.parked += 1
                count(side.reasons, Counter(refusal(u.error) for u in verdict.unroutable))

    def _evaluate(self, slices: Sequence[PartitionSlice]) -> None:
        chunk = Chunk([each for each in slices if len(each)])
        old, new = chunk.evaluate((self._order.old, self._order.new), self._databases.persist)
        changed = compare(old, new)
        newly_fail, newly_pass = set(changed.newly_fail), set(changed.newly_pass)
        chunk_tally = TaskTally()  # added when complete: a chunk that fails is counted again in halves
        for name, indices in by_name(chunk.names()).items():
            if not self._is_selected(name):
                continue
            tally = chunk_tally.of_type(name)
            tally.read += len(indices)
            _count(tally.old, old, indices)
            _count(tally.new, new, indices)
            sample = partial(self._sample, chunk, name)
            _newly(tally.newly_fail, new, [p for p in indices if p in newly_fail], sample)
            _newly(tally.newly_pass, old, [p for p in indices if p in newly_pass], sample)
        self._tally.add(chunk_tally)

    def _is_selected(self, name: str) -> bool:
        patterns = self._order.events
        return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)

    def _sample(self, chunk: Chunk, name: str, results: EventOutcomes, index: int) -> Sample:
        event = masked(chunk.value(index), self._order.personal.get(name, ()))
        return Sample(receipt=chunk.receipt(index), reasons=results.reasons(index), event=event)


def _count(outcomes: Outcomes, results: EventOutcomes, indices: Sequence[int]) -> None:
    """Count the outcomes of the events of one type."""
    landed = len(indices)
    for index in _noted(results, indices):
        landed -= 1
        if index in results.refused:
            outcomes.refused += 1
        elif index in results.parked:
            outcomes.parked += 1
        else:
            outcomes.untried += 1
        count(outcomes.reasons, Counter(results.reasons(index)))
    outcomes.landed += landed


def _noted(results: EventOutcomes, indices: Collection[int]) -> Collection[int]:
    """Return those of `indices` whose events are refused, parked or untried."""
    noted = results.refused.keys() | results.parked.keys() | results.untried.keys()
    return [index for index in indices if index in noted] if noted else ()


def _newly(newly: Newly, results: EventOutcomes, indices: Sequence[int], sample: "partial[Sample]") -> None:
    """Count events that newly fail or pass; `results`: the outcomes under the rules by which they fail."""
    newly.events += len(indices)
    for index in indices:
        count(newly.reasons, Counter(results.reasons(index)))
        if len(newly.samples) < SAMPLES:
            newly.samples.append(sample(results, index))


def _gathered(pieces: Iterable[list[PartitionSlice]]) -> Iterator[list[PartitionSlice]]:
    """Yield the slices of several reads together, so that each of hundreds of event types has many rows."""
    gathered: list[PartitionSlice] = []
    for read in pieces:
        gathered += read
        if sum(map(len, gathered)) >= _AT_ONCE or sum(each.size for each in gathered) >= _AT_ONCE_BYTES:
            yield gathered
            gathered = []
    if gathered:
        yield gathered


def _read(reader: RangeReader, ranges: Sequence[Range], tally: TaskTally) -> Generator[list[PartitionSlice]]:
    """Yield the records of `ranges`; record a range that Kafka no longer returns, and continue the others."""
    ends: dict[Partition, int] = {}
    try:
        yield from _noting(reader, ranges, ends)
    except (RangeUnreadableError, CorruptBatchError):
        for each in ranges:
            left = replace(each, start=max(each.start, ends.get(each.partition, 0)))
            try:
                yield from _noting(reader, [left], ends)
            except (RangeUnreadableError, CorruptBatchError) as e:
                tally.unread.append(str(e))


def _noting(
    reader: RangeReader, ranges: Sequence[Range], ends: dict[Partition, int]
) -> Generator[list[PartitionSlice]]:
    with closing(reader.read(ranges)) as pieces:
        for read in pieces:
            for each in read:
                ends[each.partition] = _end(each)
            yield read


def _end(part: PartitionSlice) -> int:
    return int(part.rows.column("offset")[-1].as_py()) + 1
