"""The audit, top to bottom: read the databases, then Kafka, then compare (invariant 8).

The databases come first: what is parked, diverted or counted on Kafka later is above what
their ledgers said, and is left out.  Only where the writer's group stands is read before them:
what is below, each of them must have settled.
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from services.admin import books_sql
from services.admin.audit.balance import Sums
from services.admin.audit.books import Books, check_held, check_markers, check_parked, check_rows, line_of
from services.admin.audit.collect import collect
from services.admin.audit.incarnations import Part, deleted, given_up, parts, say_unread
from services.admin.audit.leaderless import see_leaders
from services.admin.audit.motion import moving, under_way
from services.admin.audit.receipts import Reading, Seen
from services.admin.audit.settled_under import check_gaps
from services.admin.books_sql import Snapshot
from services.admin.findings import Code, Finding, Life, Report
from services.admin.kafka_logs import KafkaLogs
from shared.kafka_security import Brokers

#: Without a wish, receipts are read again when there are at most so many.
DEEP_AT_MOST: Final = 2_000_000
_ATTEMPTS: Final = 5
_BETWEEN_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True)
class Request:
    """What to audit.  `deep` None: when there are few enough receipts."""

    brokers: Brokers
    databases: Mapping[str, str]
    topics: str = r"events\..+"
    deep: bool | None = None


async def audit(request: Request) -> Report:
    """Audit the running stack.  Raises `InfrastructureError` when a part cannot be reached.

    A writer in the middle of a batch is looked at again, a few times: its books are of two
    moments then, and what is still so at the end is said, not guessed.
    """
    async with KafkaLogs(request.brokers) as logs:
        for _ in range(_ATTEMPTS - 1):
            if report := await _once(request, logs, last=False):
                return report
            await asyncio.sleep(_BETWEEN_SECONDS)
        return await _once(request, logs, last=True) or Report()


async def _once(request: Request, logs: KafkaLogs, *, last: bool) -> Report | None:
    """One look; None when it met a writer in the middle of its work and is not the `last`."""
    committed = await logs.group_offsets()
    with ExitStack() as stack:
        snapshots = {n: stack.enter_context(books_sql.opened(n, d)) for n, d in request.databases.items()}
        books = await collect(logs, snapshots, re.compile(request.topics))
        books.committed = committed
        total = sum(map(len, parts(books)))
        deep = total <= DEEP_AT_MOST if request.deep is None else request.deep
        if not last and not books.leaderless and _in_motion(books, deep=deep):
            return None
        report = Report(deep=deep, leaderless=[*map(str, sorted(books.leaderless))], foreign=books.foreign)
        check_rows(books, report)
        if not see_leaders(books, report):
            return report
        _see_unsettled(books, report)
        report.findings += [*deleted(books), *given_up(books)]
        for part in parts(books):
            await _check_life(logs, books, snapshots, part, report)
        _check_others(books, report)
        say_unread(books, report)
        if not report.deep:
            report.unchecked.append("receipts were not read again: --deep reads them")
    report.findings.sort(key=lambda f: (f.source, -1 if f.offset is None else f.offset, f.code))
    report.unchecked = list(dict.fromkeys(report.unchecked))
    return report


def _in_motion(books: Books, *, deep: bool) -> bool:
    """Whether looking again could change the verdict: sums of several moments match by chance alone."""
    suspects = [life for life in books.newest() if moving(books, life)]
    lines = (line_of(books, life) for life in suspects)
    return any(not deep or line.accounted != line.read for line in lines) or any(deleted(books))


async def _check_life(
    logs: KafkaLogs, books: Books, snapshots: Mapping[str, Snapshot], part: Part, report: Report
) -> None:
    """Everything that must hold of one life of a partition."""
    life = part.life
    line = line_of(books, life)
    report.lines.append(line)
    report.findings += [*check_markers(books, life), *check_parked(books, life), *check_held(books, life)]
    report.findings += check_gaps(books, life)
    seen = await _read_again(logs, books, snapshots, part, report) if report.deep else None
    if part.first > line.baseline or part.upto < line.next_offset:
        seen = None  # what Kafka has no more cannot be counted
    if seen is not None:
        line.holes, line.probes = len(part) - seen.records, seen.probes
        line.waiting += seen.waiting_too
    sums = Sums(books, life, line, None if part.shared > line.baseline else seen)
    in_motion = moving(books, life)
    if why := sums.unchecked():
        report.unchecked.append(why)
    elif sums.are_of_one_moment(in_motion):
        report.findings += sums.findings()
    else:
        report.in_motion += 1
        report.unchecked.append(f"{life.source}: the sums are not of one moment: {in_motion}")


def _check_others(books: Books, report: Report) -> None:
    """What still must hold of a life whose log is gone: what waits of it, and what its ledger passed over."""
    for source in books.lives:
        chain = books.chain(source)
        for life in books.of(source):
            if life not in chain:
                report.findings += [*check_held(books, life), *check_gaps(books, life)]


def _see_unsettled(books: Books, report: Report) -> None:
    stands = {life.source: books.stand(life) for life in books.newest()}
    for source, (begin, end) in books.spans.items():
        report.unsettled += max(end - max(stands.get(source, begin), begin), 0)
        if stands.get(source, 0) > end:
            text = (
                f"the ledger stands at {stands[source]}, Kafka's log ends at {end}: was the topic made anew?"
            )
            report.findings.append(Finding(Code.UNBALANCED, source, None, text))


def _see_under_way(books: Books, life: Life, report: Report) -> None:
    """Say which events are not judged for a database because their batch is not committed."""
    for name in books.databases:
        if ahead := under_way(books, life, name):
            report.unjudged += len(ahead)
            report.unchecked.append(
                f"{life.source}: [{ahead.start}, {ahead.stop}) is in the middle of a batch: {name} had not "
                "settled it when it was read"
            )


async def _read_again(
    logs: KafkaLogs, books: Books, snapshots: Mapping[str, Snapshot], part: Part, report: Report
) -> Seen | None:
    life, first, upto = part[:3]
    if upto > books.spans.get(life.source, (0, 0))[1]:
        return None
    if first > books.start(life):
        report.unchecked.append(f"{life.source}: Kafka has deleted what is below offset {first}")
    reading = Reading(books, snapshots, part)
    seen = await reading.run(logs.read({life.source: (first, upto)}))
    report.findings += seen.findings
    _see_under_way(books, life, report)
    report.receipts += seen.records
    report.unjudged += seen.events_unjudged
    report.unchecked += [
        f"{n} events from {life.source} are not in {place}, and nobody knows whether they were routed there"
        for place, n in sorted(seen.unjudged.items())
    ]
    report.unchecked += [
        f"{place} keeps no receipts: {n} events from {life.source} are checked by count alone"
        for place, n in sorted(seen.unseen.items())
    ]
    return seen
