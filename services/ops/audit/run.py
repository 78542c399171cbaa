"""The audit, top to bottom: read the databases, then Kafka, then compare (invariant 8).

The databases come first: events that are parked, diverted or counted on Kafka later are above
their ledgers and excluded.  Only the offsets of the writer's group are read before them: each
database must have settled the events below.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from services.ops import parked_store_sql, totals_sql
from services.ops.audit.audit_data import AuditData
from services.ops.audit.checks import (
    check_markers,
    check_parked,
    check_rows,
    check_waiting,
    line_of,
    report_unread_tables,
)
from services.ops.audit.collect import collect
from services.ops.audit.concurrent_writer import concurrent_writer, in_progress
from services.ops.audit.lost_events import Reading
from services.ops.audit.parked_store import Comparison, StoreCheck
from services.ops.audit.reading_result import ReadingResult
from services.ops.audit.reconcile import Sums
from services.ops.audit.replays import Edits, check_replayed
from services.ops.audit.settled_routes import check_gaps
from services.ops.audit.topic_generations import (
    ReadableRange,
    dead_lettered,
    deleted,
    readable_ranges,
    report_unreadable,
)
from services.ops.audit.transforms import OutputTopics, check_transforms
from services.ops.audited_database_sql import UnreachableDatabaseError
from services.ops.findings import Code, Finding, Generation, Report
from services.ops.kafka_logs import KafkaLogs
from services.ops.totals_sql import Snapshot
from services.ops.transactions.check import check_transactions
from shared.errors import LAKE_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers
from shared.topics import OWN_TOPICS

if TYPE_CHECKING:
    from services.ops.audit.lake import Lake

#: Maximum receipts that are read by default.
MAX_DEEP_EVENTS: Final = 2_000_000
_ATTEMPTS: Final = 5
_BETWEEN_SECONDS: Final = 0.3
_CONTROL: Final = "the control database"


@dataclass(frozen=True, slots=True)
class Request:
    """The scope of an audit: DSNs by database.  `deep` None: receipts are read up to a limit.

    `control`: the DSN of the control database, or None to skip it.  `output_topics` reads the registry, which
    is needed once a transform has run.  `lake`: its storage and the registry.
    """

    brokers: Brokers
    databases: Mapping[str, str]
    topics: str = r"events\..+"
    deep: bool | None = None
    control: str = ""
    output_topics: OutputTopics = dict
    lake: "Lake | None" = None


@dataclass(frozen=True, slots=True)
class _Sources:
    """The sources for reading event by event."""

    logs: KafkaLogs
    snapshots: Mapping[str, Snapshot]
    edits: Edits
    #: The name of the default database.
    default: str


#: Called with the number of partitions that are read, and of all of them.
Progress = Callable[[int, int], None]


async def audit(request: Request, progress: Progress = lambda *_: None) -> Report:
    """Audit the running stack.  Raises `InfrastructureError` when Kafka or every database cannot be reached.

    A database that does not answer, also in the middle of the audit, is reported, and the audit begins again
    without it.
    """
    unreachable: dict[str, str] = {}
    async with KafkaLogs(request.brokers) as logs:
        while True:
            try:
                report = await _without(unreachable, request, logs, progress)
            except UnreachableDatabaseError as error:
                unreachable[error.database] = error.detail
                if unreachable.keys() >= request.databases.keys():
                    raise
            else:
                report.unreachable = [name or _CONTROL for name in unreachable]
                report.unchecked = [*map(_unread, unreachable.values()), *report.unchecked]
                return report


async def _without(
    unreachable: Mapping[str, str], request: Request, logs: KafkaLogs, progress: Progress
) -> Report:
    """Audit the reachable databases.

    The audit is repeated a few times if a writer is in the middle of a batch, because its totals are of
    two times then; what remains inconsistent is reported as unchecked.
    """
    default = next(iter(request.databases))
    request = replace(
        request,
        databases={name: dsn for name, dsn in request.databases.items() if name not in unreachable},
        control="" if parked_store_sql.CONTROL in unreachable else request.control,
    )
    for _ in range(_ATTEMPTS - 1):
        if report := await _once(request, default, logs, progress, last=False):
            return report
        await asyncio.sleep(_BETWEEN_SECONDS)
    return await _once(request, default, logs, progress, last=True) or Report()


def _unread(reason: str) -> str:
    return f"{reason}: nothing of it was compared"


async def _once(
    request: Request, default: str, logs: KafkaLogs, progress: Progress, *, last: bool
) -> Report | None:
    """Audit once; return None if a writer was in the middle of a batch and this is not the `last` try."""
    committed = await logs.group_offsets()
    topics = re.compile(request.topics)
    with ExitStack() as stack:
        before = stack.enter_context(parked_store_sql.opened(request.control))
        snapshots = {n: stack.enter_context(totals_sql.opened(n, d)) for n, d in request.databases.items()}
        after = stack.enter_context(parked_store_sql.opened(request.control if before else ""))
        kept = StoreCheck(before, after, Comparison(before, topics)) if before and after else None
        data = await collect(logs, snapshots, topics, kept.comparison if kept else None)
        data.committed = committed
        snapshots = {name: each for name, each in snapshots.items() if name in data.databases}
        total = sum(map(len, readable_ranges(data)))
        deep = total <= MAX_DEEP_EVENTS if request.deep is None else request.deep
        if not last and not data.leaderless and _meets_a_writer(data, deep=deep):
            return None
        report = Report(deep=deep, leaderless=[*map(str, sorted(data.leaderless))], foreign=data.foreign)
        report.closed = data.closed
        check_rows(data, report)
        report_unread_tables(data, report)
        if not report_leaderless(data, report):
            return report
        _count_unsettled(data, report)
        report.findings += [*deleted(data), *dead_lettered(data)]
        sources = _Sources(logs, snapshots, Edits(after), default)
        ranges = list(readable_ranges(data))
        for number, readable in enumerate(ranges):
            progress(number, len(ranges))
            await _check_generation(sources, data, readable, report)
        _check_others(data, report)
        await check_transforms(
            logs, topics, request.output_topics, report, deep=request.deep, limit=MAX_DEEP_EVENTS
        )
        await check_transactions(logs, snapshots, report, deep=request.deep, limit=MAX_DEEP_EVENTS)
        if kept:
            kept.run(data, report, deep=deep)
        if request.lake is not None:
            await _audit_lake(request.lake, logs, topics, report)
        report_unreadable(data, report)
        if not report.deep:
            report.unchecked.append("receipts were not read: --deep reads them")
    report.findings.sort(key=lambda f: (f.source, -1 if f.offset is None else f.offset, f.code))
    report.unchecked = list(dict.fromkeys(report.unchecked))
    return report


async def _audit_lake(lake: "Lake", logs: KafkaLogs, topics: re.Pattern[str], report: Report) -> None:
    """Check the lake; a storage that is unreachable is not checked, and the databases are."""
    from services.ops.audit.lake import audit_lake  # noqa: PLC0415 - Delta and Arrow load for a lake alone

    try:
        await audit_lake(lake, logs, topics, report)
    except InfrastructureError as error:
        if error.fault is not LAKE_UNAVAILABLE:
            raise
        report.unreadable.append("the lake")
        report.unchecked.append(error.detail)


def _meets_a_writer(data: AuditData, *, deep: bool) -> bool:
    """Return whether a repeat could change the outcome: totals of different times match by chance."""
    suspects = [generation for generation in data.newest() if concurrent_writer(data, generation)]
    lines = (line_of(data, generation) for generation in suspects)
    return any(not deep or line.accounted != line.read for line in lines) or any(deleted(data))


async def _check_generation(
    sources: _Sources, data: AuditData, readable: ReadableRange, report: Report
) -> None:
    """Run all checks of one generation of a partition."""
    generation = readable.generation
    line = line_of(data, generation)
    report.lines.append(line)
    report.findings += [
        *check_markers(data, generation),
        *check_parked(data, generation),
        *check_waiting(data, generation),
        *check_replayed(data, generation),
    ]
    report.findings += check_gaps(data, generation)
    result = await _read_again(sources, data, readable, report) if report.deep else None
    if readable.first > line.baseline or readable.upto < line.next_offset:
        result = None  # events that Kafka has deleted cannot be counted
    if result is not None:
        line.holes, line.probes = len(readable) - result.records, result.probes
        line.waiting += result.waiting_too
    sums = Sums(data, generation, line, None if readable.shared > line.baseline else result)
    in_motion = concurrent_writer(data, generation)
    if reason := sums.unchecked():
        report.unchecked.append(reason)
    elif sums.are_of_one_moment(in_motion):
        findings = [*sums.findings()]
        if findings and await _is_compacted(sources.logs, generation.source.topic):
            report.unchecked.append(
                f"{generation.source}: compacted, so Kafka has not kept every event that was settled: "
                "the sums cannot be checked"
            )
        else:
            report.findings += findings
    else:
        report.in_motion += 1
        report.unchecked.append(f"{generation.source}: the sums are not of one moment: {in_motion}")


async def _is_compacted(logs: KafkaLogs, topic: str) -> bool:
    """Return whether Kafka may compact `topic`: remove records with a later one of their key."""
    settings = await logs.settings([topic])
    return "compact" in settings.get(topic, {}).get("cleanup.policy", "")


def _check_others(data: AuditData, report: Report) -> None:
    """Check waiting events and gaps of a generation whose log was deleted."""
    for source in data.topic_ids:
        chain = data.chain(source)
        for generation in data.generations_of(source):
            if generation not in chain:
                report.findings += [
                    *check_waiting(data, generation),
                    *check_replayed(data, generation),
                    *check_gaps(data, generation),
                ]


def _count_unsettled(data: AuditData, report: Report) -> None:
    next_offsets = {generation.source: data.next_offset(generation) for generation in data.newest()}
    for source, (first, end) in data.spans.items():
        report.unsettled += max(end - max(next_offsets.get(source, first), first), 0)
        if next_offsets.get(source, 0) > end:
            text = (
                f"the ledger's next offset is {next_offsets[source]}, Kafka's log ends at {end}: "
                "was the topic recreated?"
            )
            report.findings.append(Finding(Code.UNBALANCED, source, None, text))


def _report_in_progress(data: AuditData, generation: Generation, report: Report) -> None:
    """Report events that are unchecked for a database because their batch is not committed."""
    for name in data.databases:
        if ahead := in_progress(data, generation, name):
            report.unjudged += len(ahead)
            report.unchecked.append(
                f"{generation.source}: [{ahead.start}, {ahead.stop}) is in the middle of a batch: "
                f"{name} had not settled it when it was read"
            )


async def _read_again(
    sources: _Sources, data: AuditData, readable: ReadableRange, report: Report
) -> ReadingResult | None:
    generation, first, upto = readable[:3]
    if upto > data.spans.get(generation.source, (0, 0))[1]:
        return None
    if first > data.start(generation):
        report.unchecked.append(f"{generation.source}: Kafka has deleted what is below offset {first}")
    reading = Reading(data, sources.snapshots, readable, sources.edits, sources.default)
    result = await reading.run(sources.logs.read({generation.source: (first, upto)}))
    report.findings += result.findings
    if (unknown := result.without_record) and await _is_compacted(sources.logs, generation.source.topic):
        report.unchecked.append(
            f"{generation.source}: compacted, so the records of {len(unknown)} rows may have been removed: "
            f"not checked, the first at offset {unknown[0].offset}"
        )
    else:
        report.findings += unknown
    _report_in_progress(data, generation, report)
    report.receipts += result.records
    report.unjudged += result.events_unjudged
    report.unchecked += [
        f"{n} events from {generation.source} are not in {table}, "
        "and whether they were routed there is unknown"
        for table, n in sorted(result.unjudged.items())
    ]
    if result.edits_unknown:
        report.unchecked.append(
            f"{result.edits_unknown} edited rows from {generation.source} are not compared: "
            "the edit is unknown"
        )
    report.unchecked += [
        f"{table}: values of {column} that cannot be read are not compared: {n} from {generation.source}, "
        f"the first at offset {first}"
        for (table, column), (n, first) in sorted(result.unread.items())
    ]
    report.unchecked += [
        f"{table} keeps no receipts: {n} events from {generation.source} are checked by count alone"
        for table, n in sorted(result.without_receipts.items())
        if table not in data.databases[table.database].unreadable
    ]
    return result


def report_leaderless(data: AuditData, report: Report) -> bool:
    """Report unreadable partitions; return False if Onramp's own topics are among them.

    Without these topics parked and waiting events would seem missing, so only rows can be compared with
    their totals.
    """
    own = {topic.name for topic in OWN_TOPICS}
    for source in sorted(data.leaderless):
        rest = (
            "only rows were compared with their totals"
            if source.topic in own
            else "its records on Kafka were not compared with the totals"
        )
        report.unchecked.append(f"{source}: no broker leads it, so {rest}")
    return not any(source.topic in own for source in data.leaderless)
