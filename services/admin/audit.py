"""The audit, top to bottom: read the databases, then Kafka, then compare (invariant 8).

The databases come first: what is parked, diverted or counted on Kafka later is above what
their ledgers said, and is left out.
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from services.admin import books_sql
from services.admin.balance import Sums
from services.admin.books import Books, check_held, check_markers, check_parked, check_rows, line_of, moving
from services.admin.books_sql import Snapshot
from services.admin.collect import collect
from services.admin.findings import Code, Finding, Life, Report
from services.admin.kafka_logs import KafkaLogs
from services.admin.receipts import Reading, Seen
from services.admin.settled_under import check_gaps

#: Without a wish, receipts are read again when there are at most so many.
DEEP_AT_MOST: Final = 2_000_000
_ATTEMPTS: Final = 5
_BETWEEN_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True)
class Request:
    """What to audit.  `deep` None: when there are few enough receipts."""

    bootstrap: str
    databases: Mapping[str, str]
    topics: str = r"events\..+"
    deep: bool | None = None


async def audit(request: Request) -> Report:
    """Audit the running stack.  Raises `InfrastructureError` when a part cannot be reached.

    A writer in the middle of a batch is looked at again, a few times: its books are of two
    moments then, and what is still so at the end is said, not guessed.
    """
    async with KafkaLogs(request.bootstrap) as logs:
        for _ in range(_ATTEMPTS - 1):
            if report := await _once(request, logs, last=False):
                return report
            await asyncio.sleep(_BETWEEN_SECONDS)
        return await _once(request, logs, last=True) or Report()


async def _once(request: Request, logs: KafkaLogs, *, last: bool) -> Report | None:
    """One look; None when it met a writer in the middle of its work and is not the `last`."""
    with ExitStack() as stack:
        snapshots = {n: stack.enter_context(books_sql.opened(n, d)) for n, d in request.databases.items()}
        books = await collect(logs, snapshots, re.compile(request.topics))
        lives = books.newest()
        if not last and _in_motion(books):
            return None
        report = Report(foreign=books.foreign)
        _see_unsettled(books, report)
        check_rows(books, report)
        total = sum(max(upto - first, 0) for first, upto in (_span(books, life) for life in lives))
        report.deep = total <= DEEP_AT_MOST if request.deep is None else request.deep
        for life in lives:
            await _check_life(logs, books, snapshots, life, report)
        _say_lives(books, report)
        if not report.deep:
            report.unchecked.append("receipts were not read again: --deep reads them")
    report.findings.sort(key=lambda f: (f.source, -1 if f.offset is None else f.offset, f.code))
    report.unchecked = list(dict.fromkeys(report.unchecked))
    return report


def _in_motion(books: Books) -> bool:
    """Whether looking again could change the verdict: sums that are not of one moment do not match."""
    suspects = [life for life in books.newest() if moving(books, life)]
    return any(line.accounted != line.read for line in (line_of(books, life) for life in suspects))


async def _check_life(
    logs: KafkaLogs, books: Books, snapshots: Mapping[str, Snapshot], life: Life, report: Report
) -> None:
    """Everything that must hold of one partition."""
    line = line_of(books, life)
    report.lines.append(line)
    report.findings += [*check_markers(books, life), *check_parked(books, life), *check_held(books, life)]
    report.findings += check_gaps(books, life)
    first, upto = _span(books, life)
    seen = await _read_again(logs, books, snapshots, life, report) if report.deep else None
    if seen is not None and first > line.baseline:  # what Kafka has deleted cannot be counted
        seen = None
    if seen is not None:
        line.holes, line.probes = upto - first - seen.records, seen.probes
        line.waiting += seen.waiting_too
    sums = Sums(books, life, line, seen)
    if why := sums.unchecked(moving(books, life)):
        report.unchecked.append(why)
    else:
        report.findings += sums.findings()


def _span(books: Books, life: Life) -> tuple[int, int]:
    """The offsets of `life` to read again: settled, and not yet deleted by Kafka."""
    begin = books.spans.get(life.source, (0, 0))[0]
    upto = max(books.covered(n, life) for n, d in books.databases.items() if life in d.ledger)
    return max(begin, min(books.baseline(life).values(), default=0)), upto


def _see_unsettled(books: Books, report: Report) -> None:
    stands = {life.source: _span(books, life)[1] for life in books.newest()}
    for source, (begin, end) in books.spans.items():
        report.unsettled += max(end - stands.get(source, begin), 0)
        if stands.get(source, 0) > end:
            text = (
                f"the ledger stands at {stands[source]}, Kafka's log ends at {end}: was the topic made anew?"
            )
            report.findings.append(Finding(Code.UNBALANCED, source, None, text))


def _say_lives(books: Books, report: Report) -> None:
    for source, ids in books.lives.items():
        if len(ids) > 1:
            report.unchecked.append(
                f"{source} has had {len(ids)} lives; its receipts are not read again, and its parked "
                "events cannot be told from those of the others"
            )


async def _read_again(
    logs: KafkaLogs, books: Books, snapshots: Mapping[str, Snapshot], life: Life, report: Report
) -> Seen | None:
    first, upto = _span(books, life)
    end = books.spans.get(life.source, (0, 0))[1]
    if len(books.lives[life.source]) > 1 or upto > end:
        return None
    if first > min(books.baseline(life).values(), default=0):
        report.unchecked.append(f"{life.source}: Kafka has deleted what is below offset {first}")
    reading = Reading(books, snapshots, life, first, upto)
    seen = await reading.run(logs.read({life.source: (first, upto)}))
    report.findings += seen.findings
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
