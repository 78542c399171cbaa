"""The audit's report in lines for people: the result first, then violations and what was not checked."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from services.ops.findings import Finding, Line, Report

_MAX_FINDINGS: Final = 100


def lines_of(report: "Report", *, verbose: bool = False) -> Iterator[str]:
    """Yield the report's lines, the result first; partitions if `verbose`, or if a total differs."""
    how = f"{report.receipts:,} receipts read" if report.deep else "by totals alone"
    yield f"{_result(report)} ({how})."
    if verbose or not report.balanced:
        yield from map(_partition, report.lines)
    for finding in report.findings[:_MAX_FINDINGS]:
        yield f"{finding.code.value.upper()}  {finding.receipt}  {finding.detail}{_fix(finding)}"
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


def _fix(finding: "Finding") -> str:
    return f"; {finding.fix}" if finding.fix else ""


def _partition(line: "Line") -> str:
    outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in line.outcomes.items())
    return (
        f"{line.topic}/{line.partition}: {line.read:,} read; {line.filtered:,} filtered, "
        f"{line.unroutable:,} unroutable, {line.refused:,} refused, {outcomes or '0 landed'}, "
        f"{line.waiting:,} waiting"
    )


def _result(report: "Report") -> str:
    if report.findings:
        return f"NOT RECONCILED: {len(report.findings):,} violations"
    if report.balanced:
        read = sum(line.read for line in report.lines)
        return f"Reconciled: {read:,} records of {len(report.lines):,} partitions"
    reasons = {
        f"{report.unjudged:,} events cannot be checked": report.unjudged,
        f"a writer was in the middle of {report.in_motion:,} partitions: run it again": report.in_motion,
        f"no broker leads {', '.join(report.leaderless)}": report.leaderless,
        f"{', '.join(report.unreadable)} may not be read": report.unreadable,
    }
    unchecked = ", ".join(reason for reason, applies in reasons.items() if applies)
    return f"NOT ALL CHECKED: no violation, but {unchecked}"
