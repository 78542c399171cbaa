"""`onramp audit`: whether every event is in exactly one place for each of its destinations."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.exits import Exit
from services.cli.where import JsonOption, Where, looks

if TYPE_CHECKING:
    from services.admin.findings import Report

_MOST_LINES = 100


@looks
def audit(
    where: Where,
    *,
    topics: Annotated[
        str, typer.Option(help="Regular expression of the event topics.", envvar="ONRAMP_WRITER_TOPICS")
    ] = r"events\..+",
    deep: Annotated[
        bool | None,
        typer.Option(
            "--deep/--books",
            help="Read every event again and name violations by receipt, or compare the books alone; "
            "by itself it reads up to 2 million events again.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Prove from what is stored that no event is lost and none is there twice.

    Exits with 0 when the books balance, 1 when something is wrong, 3 when a part cannot be
    reached, 4 when nothing is wrong but some events cannot be judged. Nothing is changed; the
    writer may run. Examples:

    onramp audit

    onramp audit --deep --json

    ONRAMP_WRITER_DSN=postgresql://me@db.example/test onramp audit --kafka kafka.example:9092
    """
    import asyncio
    import re
    import sys

    from services.admin.audit.run import Request
    from services.admin.audit.run import audit as run
    from shared.errors import InfrastructureError

    try:
        re.compile(topics)
    except re.error as error:
        raise typer.BadParameter(f"no regular expression: {error}", param_hint="--topics") from error
    where.must_know_a_database()
    try:
        report = asyncio.run(run(Request(where.brokers, where.databases, topics, deep)))
    except InfrastructureError as error:
        print(f"onramp: {error.detail}", file=sys.stderr)
        raise typer.Exit(Exit.UNAVAILABLE) from error
    if as_json:
        print(json.dumps(report.as_dict()))
    else:
        _tell(report)
    raise typer.Exit(_exit(report))


def _exit(report: "Report") -> Exit:
    if report.findings:
        return Exit.FAILED
    return Exit.OK if report.balanced else Exit.UNCHECKED


def _tell(report: "Report") -> None:
    for line in report.lines:
        outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in line.outcomes.items())
        print(
            f"{line.topic}/{line.partition}: {line.read:,} read; {line.filtered:,} filtered, "
            f"{line.unroutable:,} unroutable, {line.refused:,} refused, {outcomes or '0 landed'}, "
            f"{line.waiting:,} waiting"
        )
    for finding in report.findings[:_MOST_LINES]:
        print(f"{finding.code.value.upper()}  {finding.receipt}  {finding.detail}")
    if len(report.findings) > _MOST_LINES:
        print(f"… and {len(report.findings) - _MOST_LINES:,} more; --json has them all")
    for sentence in report.unchecked:
        print(f"not checked: {sentence}")
    if report.unsettled:
        print(f"not yet settled: {report.unsettled:,} events")
    if report.foreign:
        print(f"left out: {report.foreign:,} records on Onramp's topics that are not Onramp's")
    how = f"{report.receipts:,} receipts read again" if report.deep else "by the books alone"
    print(f"{_verdict(report)} ({how}).")


def _verdict(report: "Report") -> str:
    if report.findings:
        return f"THE BOOKS DO NOT BALANCE: {len(report.findings):,} violations"
    if report.balanced:
        return "The books balance"
    why = {
        f"{report.unjudged:,} events cannot be judged": report.unjudged,
        f"a writer was in the middle of {report.in_motion:,} partitions: run it again": report.in_motion,
        f"no broker leads {', '.join(report.leaderless)}": report.leaderless,
    }
    return f"NOT ALL IS CHECKED: nothing is wrong, and {', '.join(w for w, so in why.items() if so)}"
