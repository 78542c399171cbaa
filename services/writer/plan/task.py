"""One task of a trial: reads its ranges, has both rules judge them, and counts; `try_share` is the flow.

It has one connection to each database, and nothing that it writes is committed.
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

from services.writer.model.offsets import Partition, Range
from services.writer.model.records import PartitionSlice, wanted_of
from services.writer.observe.job_progress import write_count
from services.writer.persist.row_results import PersistResult
from services.writer.persist.table_copies import Copies, Variant
from services.writer.persist.table_rights import UntriedError
from services.writer.plan.evaluate import Chunk, by_name
from services.writer.plan.outcome_diff import Judged, compare
from services.writer.plan.reasons import refusal
from services.writer.plan.rules import Rules, TableName
from services.writer.plan.survey import LANDS
from services.writer.plan.tally import SAMPLES, Newly, Outcomes, Sample, TaskTally, count
from services.writer.postgres.database import Database, translate
from services.writer.postgres.pool import connected
from services.writer.read.decompress import CorruptBatchError
from services.writer.read.fetch import RangeUnreadableError
from services.writer.read.range_reader import RangeReader
from services.writer.settle.sort_apart import sort_one_by_one
from shared import logs
from shared.errors import InfrastructureError, OnrampError
from shared.kafka_security import Brokers
from shared.mask import masked

#: A table at which so many chunks failed in a task is not tried again there.
_MAX_FAILURES: Final = 3
#: Events, and their bytes, that are judged together.
_AT_ONCE: Final = 20_000
_AT_ONCE_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOrder:
    """What all tasks of a trial are given."""

    old: Rules
    new: Rules
    #: Those that could be asked before.
    databases: tuple[Database, ...]
    #: Why the others could not, by name.
    out: Mapping[str, str]
    brokers: Brokers
    #: Patterns of the event names that are counted; all if there is none.
    events: tuple[str, ...] = ()
    #: Pointers into payloads of which samples do not even show the shape, by event name.
    personal: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Where tasks write down how far they are.
    progress: Path | None = None


def shares(ranges: Sequence[Range], tasks: int) -> list[list[Range]]:
    """Return an equal part of each range for each task: nothing is settled, so a range may be divided."""
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
    """Try this task's share and return what it saw; `numbers`: which of `shares` are this task's."""
    logs.set_up_worker("writer")
    numbers = list(numbers)
    ranges = [each for number in numbers for each in shares[number]]
    reader = RangeReader(order.brokers)
    try:
        return [try_ranges(order, ranges, reader, numbers[0] if numbers else 0)]
    finally:
        reader.close()


def try_ranges(order: TrialOrder, ranges: Sequence[Range], reader: RangeReader, number: int = 0) -> TaskTally:
    """Have both rules judge the events of `ranges`, each of a partition of its own; returns the counts.

    `number`: the task's own.
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
    """The copies in each database that answers; of one that does not, why."""

    def __init__(self, order: TrialOrder, tally: TaskTally, stack: ExitStack) -> None:
        self._databases = {each.name: each for each in order.databases}
        self._out = dict(order.out)
        self._copies: dict[str, Copies] = {}
        self._failures: Counter[TableName] = Counter()
        self._tally = tally
        self._stack = stack

    def persist(self, variant: Variant, rows: pa.Table) -> PersistResult:
        """Write `rows` into a copy and undo it.  Raise `UntriedError`, and notes why."""
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
        """Let go of all copies, and with them of every lock, before Kafka is waited for."""
        for copies in self._copies.values():
            copies.drop()

    def _persist(
        self, name: TableName, variant: Variant, rows: pa.Table, reason: str | None
    ) -> PersistResult:
        """Do so unless there is a `reason` not to."""
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
            reason = f"{type(e).__name__}, which nobody foresaw"
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
    """Counts what both rules make of the events of some ranges."""

    def __init__(self, order: TrialOrder, tally: TaskTally, databases: _Databases) -> None:
        self._order = order
        self._tally = tally
        self._databases = databases

    def count(self, read: Sequence[PartitionSlice]) -> None:
        """Judge and count what was read together."""
        wanted = [each for each in wanted_of(read) if len(each)]
        records = sum(map(len, read))
        self._tally.read += records
        self._tally.filtered += records - sum(map(len, wanted))
        if not wanted:
            return
        for part, verdict in sort_one_by_one(self._judge, wanted):
            of_type = self._tally.of_type(f"(unreadable) on {part.partition.topic}")
            of_type.read += 1
            for side in (of_type.old, of_type.new):
                side.parked += 1
                count(side.reasons, Counter(refusal(u.error) for u in verdict.unroutable))

    def _judge(self, slices: Sequence[PartitionSlice]) -> None:
        chunk = Chunk([each for each in slices if len(each)])
        old, new = chunk.judge((self._order.old, self._order.new), self._databases.persist)
        changed = compare(old, new)
        newly_fail, newly_pass = set(changed.newly_fail), set(changed.newly_pass)
        found = TaskTally()  # added when all is counted: what fails before is counted in halves
        for name, places in by_name(chunk.names()).items():
            if not self._is_asked(name):
                continue
            tally = found.of_type(name)
            tally.read += len(places)
            _count(tally.old, old, places)
            _count(tally.new, new, places)
            sample = partial(self._sample, chunk, name)
            _newly(tally.newly_fail, new, [p for p in places if p in newly_fail], sample)
            _newly(tally.newly_pass, old, [p for p in places if p in newly_pass], sample)
        self._tally.add(found)

    def _is_asked(self, name: str) -> bool:
        asked = self._order.events
        return not asked or any(fnmatchcase(name, pattern) for pattern in asked)

    def _sample(self, chunk: Chunk, name: str, judged: Judged, place: int) -> Sample:
        event = masked(chunk.value(place), self._order.personal.get(name, ()))
        return Sample(receipt=chunk.receipt(place), reasons=judged.reasons(place), event=event)


def _count(outcomes: Outcomes, judged: Judged, places: Sequence[int]) -> None:
    """Count what became of the events of one type."""
    landed = len(places)
    for place in _noted(judged, places):
        landed -= 1
        if place in judged.refused:
            outcomes.refused += 1
        elif place in judged.parked:
            outcomes.parked += 1
        else:
            outcomes.untried += 1
        count(outcomes.reasons, Counter(judged.reasons(place)))
    outcomes.landed += landed


def _noted(judged: Judged, places: Collection[int]) -> Collection[int]:
    """Return those of `places` that do not just land."""
    noted = judged.refused.keys() | judged.parked.keys() | judged.untried.keys()
    return [place for place in places if place in noted] if noted else ()


def _newly(newly: Newly, judged: Judged, places: Sequence[int], sample: "partial[Sample]") -> None:
    """Count events that newly fail or pass; `judged`: under the rules by which they fail."""
    newly.events += len(places)
    for place in places:
        count(newly.reasons, Counter(judged.reasons(place)))
        if len(newly.samples) < SAMPLES:
            newly.samples.append(sample(judged, place))


def _gathered(pieces: Iterable[list[PartitionSlice]]) -> Iterator[list[PartitionSlice]]:
    """Yield what several reads brought: of hundreds of event types each has more than a few rows then."""
    gathered: list[PartitionSlice] = []
    for read in pieces:
        gathered += read
        if sum(map(len, gathered)) >= _AT_ONCE or sum(each.size for each in gathered) >= _AT_ONCE_BYTES:
            yield gathered
            gathered = []
    if gathered:
        yield gathered


def _read(reader: RangeReader, ranges: Sequence[Range], tally: TaskTally) -> Generator[list[PartitionSlice]]:
    """Yield the records of `ranges`; a range that Kafka does not give any more is noted, the others go on."""
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
