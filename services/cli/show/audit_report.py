"""The audit's report for people: the result first, then partitions, violations and unchecked parts."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Union

from services.cli.show.tables import table_of

if TYPE_CHECKING:
    from rich.table import Table

    from services.ops.findings import LakeLine, Line, Report, TransformLine

_MAX_FINDINGS: Final = 100


def parts_of(report: "Report", *, verbose: bool = False) -> Iterator[Union[str, "Table"]]:
    """Yield lines and tables, the result first; partitions if `verbose`, or if a total differs."""
    how = f"{report.receipts:,} receipts read" if report.deep else "by totals only"
    yield f"{_result(report)} ({how})."
    if report.lines and (verbose or not report.balanced):
        yield _partitions(report.lines)
    if report.transforms and (verbose or not report.balanced):
        yield _transforms(report.transforms)
    yield from _lake(report.lake, verbose=verbose or not report.balanced)
    if report.findings:
        rows = [
            (
                finding.code.value.upper(),
                finding.receipt,
                "; ".join(filter(None, (finding.detail, finding.fix))),
            )
            for finding in report.findings[:_MAX_FINDINGS]
        ]
        yield table_of(("FINDING", "RECEIPT", "DETAIL"), rows)
    if len(report.findings) > _MAX_FINDINGS:
        yield f"… and {len(report.findings) - _MAX_FINDINGS:,} more; --json has them all"
    for name, counts in report.closed.items():
        counted = ", ".join(f"{n:,} {outcome}" for outcome, n in (counts or {}).items())
        totals = f"its totals ({counted})" if counted else "its totals"
        yield f"closed: {name} is retired, so nothing is compared with {totals}"
    for sentence in report.unchecked:
        yield f"not checked: {sentence}"
    if report.unsettled:
        yield f"not yet settled: {report.unsettled:,} events"
    if report.stored is not None:
        kept = ", ".join(f"{n:,} {state}" for state, n in report.stored.items()) or "nothing"
        yield f"stored parked events: {kept}; not yet stored: {report.not_yet_stored:,}"
    if report.foreign:
        yield f"excluded: {report.foreign:,} foreign records on Onramp's topics"


def _partitions(lines: "Sequence[Line]") -> "Table":
    """Return a row for each partition, with a column for each outcome of any of them."""
    outcomes = list(dict.fromkeys(["landed", *(outcome for line in lines for outcome in line.outcomes)]))
    numbers = ["READ", "FILTERED", "UNROUTABLE", "REFUSED", *map(str.upper, outcomes), "WAITING"]
    rows = []
    for line in lines:
        landed = [line.outcomes.get(outcome, 0) for outcome in outcomes]
        counts = (line.read, line.filtered, line.unroutable, line.refused, *landed, line.waiting)
        rows.append((f"{line.topic}/{line.partition}", *(f"{count:,}" for count in counts)))
    return table_of(("PARTITION", *numbers), rows, numbers)


def _transforms(lines: "Sequence[TransformLine]") -> "Table":
    """Return a row for each transform and partition; a dash for counts without reading."""
    numbers = ["READ", "FILTERED", "DROPPED", "PARKED", "EMITTED", "OUTPUTS", "ON KAFKA"]
    rows = []
    for line in lines:
        outcomes = (line.filtered, line.dropped, line.parked, line.emitted)
        counts = (line.read, *outcomes, line.outputs, line.on_kafka)
        shown = ("-" if count is None else f"{count:,}" for count in counts)
        rows.append((line.transform, f"{line.topic}/{line.partition}", *shown))
    return table_of(("TRANSFORM", "PARTITION", *numbers), rows, numbers)


def _lake(lines: "Sequence[LakeLine]", *, verbose: bool) -> Iterator[Union[str, "Table"]]:
    if lines:
        tables = {line.table for line in lines}
        yield f"lake: {sum(line.rows for line in lines):,} rows of {len(tables):,} tables"
    if not lines or not verbose:
        return
    numbers = ("NEXT OFFSET", "LANDED", "DROPPED", "ROWS")
    rows = []
    for line in lines:
        counts = (line.next_offset, line.landed, line.dropped, line.rows)
        rows.append((line.table, f"{line.topic}/{line.partition}", *(f"{n:,}" for n in counts)))
    yield table_of(("LAKE TABLE", "PARTITION", *numbers), rows, numbers)


def _result(report: "Report") -> str:
    if report.findings:
        return f"NOT RECONCILED: {len(report.findings):,} violations"
    if report.balanced:
        read = sum(line.read for line in report.lines)
        names = {line.transform for line in report.transforms}
        also = f", {len(names):,} transform{'s' * (len(names) > 1)}" if names else ""
        return f"Reconciled: {read:,} records of {len(report.lines):,} partitions{also}"
    reasons = {
        f"{report.unjudged:,} events cannot be checked": report.unjudged,
        f"a writer was in the middle of {report.in_motion:,} partitions: run it again": report.in_motion,
        f"no broker leads {', '.join(report.leaderless)}": report.leaderless,
        f"{', '.join(report.unreadable)} may not be read": report.unreadable,
        f"{', '.join(report.unreachable)} was not read": report.unreachable,
    }
    unchecked = ", ".join(reason for reason, applies in reasons.items() if applies)
    return f"NOT ALL CHECKED: no violation, but {unchecked}"
