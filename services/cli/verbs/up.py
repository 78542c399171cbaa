"""`onramp up`: everything on this machine, and the main job on real flights."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.exits import Exit, explain
from stack import flights

if TYPE_CHECKING:
    from stack.demo import Outcome
    from stack.interrupts import Interrupts
    from stack.report import Report
    from stack.up import Stack

ROOT = Path(__file__).resolve().parent.parent.parent.parent
_CHECK_SECONDS = 0.5


def up(
    *,
    data_dir: Annotated[
        Path,
        typer.Option(
            help="Where Kafka, Postgres and logs are kept.",
            envvar="ONRAMP_DATA_DIR",
            show_default=".onramp in the project's folder",
        ),
    ] = ROOT / ".onramp",
    dsn: Annotated[
        str | None,
        typer.Option(help="Use this Postgres instead of the embedded one.", envvar="ONRAMP_WRITER_DSN"),
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(
            help="Use these brokers (host:port,…) instead of the embedded one.",
            envvar="ONRAMP_KAFKA_BOOTSTRAP",
        ),
    ] = None,
    brokers: Annotated[
        int,
        typer.Option(
            help="Brokers of the embedded Kafka: 1, or 3 with every topic on all of them (min ISR 2)."
        ),
    ] = 1,
    events: Annotated[
        int, typer.Option(min=0, max=flights.TOTAL, help="How many flights to send; 0 sends none.")
    ] = flights.TOTAL,
    leave: Annotated[
        bool, typer.Option("--exit", help="Stop everything when the flights have landed.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON; progress goes to standard error.")
    ] = False,
) -> None:
    """Start Kafka, Postgres, the gateway and the writer, and send real flights through them.

    Stays up until Ctrl-C, which stops everything in reverse order. What has landed stays in
    --data-dir; starting again goes on from there. Examples:

    onramp up                     everything, and stay up

    onramp up --events 1000 --exit --json     a quick check for a script

    onramp up --dsn postgresql://me:secret@db.example/test     into a database of your own

    onramp up --brokers 3 --data-dir .onramp/three     one broker may be lost at any time
    """
    from services.cli.terminal import report_to
    from stack.errors import StackError
    from stack.interrupts import Interrupts, Stopped
    from stack.up import Plan, Stack

    if brokers not in (1, 3):
        raise typer.BadParameter(f"{brokers} are not supported: 1 or 3", param_hint="--brokers")
    if kafka is not None and brokers != 1:
        raise typer.BadParameter("brokers are started only without --kafka", param_hint="--brokers")
    plan = Plan(data_dir=data_dir.absolute(), bootstrap=kafka, dsn=dsn, brokers=brokers)
    report = report_to(sys.stderr if as_json else sys.stdout)
    interrupts = Interrupts()
    stack = Stack(plan, report, interrupts)
    code = Exit.OK
    with interrupts.listen():
        try:
            stack.start()
            code = _main_job(stack, events, report, interrupts, as_json=as_json) if events else code
            if not leave:
                _stay(stack, report, interrupts)
        except Stopped:
            # Asked to stop is the usual end of staying up, and no success of a job that was to finish.
            code = Exit.FAILED if leave else code
        except StackError as error:
            code = explain(stack.crash() or error)
        finally:
            stack.stop()
    raise typer.Exit(code)


def _main_job(
    stack: "Stack", events: int, report: "Report", interrupts: "Interrupts", *, as_json: bool
) -> Exit:
    from stack.demo import Demo

    with interrupts.allowed():
        outcome = Demo(
            stack.gateway, stack.dsn, events, report, api_key=stack.api_key, check=stack.check
        ).run()
    if as_json:
        print(json.dumps(_as_dict(outcome)))
    else:
        for line in _told(outcome):
            report.note(line)
    return Exit.OK if outcome.adds_up else Exit.FAILED


def _as_dict(outcome: "Outcome") -> dict[str, object]:
    keys = ("carrier", "name", "average_delay_minutes", "flights")
    return {
        **dataclasses.asdict(outcome),
        "worst": [dict(zip(keys, row, strict=True)) for row in outcome.worst],
        "landed": outcome.landed,
        "adds_up": outcome.adds_up,
        "events_per_second": round(outcome.sent / outcome.seconds),
    }


def _told(outcome: "Outcome") -> list[str]:
    """Return the result in lines for people; the same ids sent again are said to be that."""
    lines = ["", f"  sent      {outcome.sent:>9,}", f"  accepted  {outcome.accepted:>9,}"]
    landed = f"  landed    {outcome.landed:>9,}"
    if outcome.landed_before:
        landed += f"   ({outcome.landed_now:,} now, {outcome.landed_before:,} were there already)"
    lines.append(landed)
    if outcome.adds_up:
        rate = outcome.sent / outcome.seconds
        lines.append(f"The counts add up: {rate:,.0f} events/s from the first request to the last row.")
    else:
        lines.append("THE COUNTS DO NOT ADD UP.")
        if outcome.first_rejection:
            lines.append(f"The first rejection: {outcome.first_rejection}")
    if outcome.worst:
        lines += ["", "Worst average departure delay by carrier:"]
        lines += [
            f"  {carrier}  {delay:>5.1f} min  {count:>7,} flights  {name}"
            for carrier, name, delay, count in outcome.worst
        ]
    return [*lines, ""]


def _stay(stack: "Stack", report: "Report", interrupts: "Interrupts") -> None:
    """Stay until a signal, and watch: a part that crashes is an error with its name."""
    import time

    for line in _where(stack):
        report.note(line)
    with interrupts.allowed():
        while True:
            stack.check()
            time.sleep(_CHECK_SECONDS)


def _where(stack: "Stack") -> list[str]:
    from stack.dev_key import FILE_NAME
    from stack.postgres import without_password

    envelope = {
        "metadata": {"id": "order-1", "timestamp": "2026-01-01T12:00:00Z", "version": "1"},
        "event_name": "order_placed",
        "payload": {"total": 42},
    }
    dsn = stack.dsn if stack.owns_postgres else without_password(stack.dsn)
    curl = f"curl -i {stack.gateway}/v1/events -H 'Content-Type: application/json' \\\n"
    curl += f"    -H 'Authorization: Bearer {stack.api_key}' \\\n   "
    select = "SELECT * FROM events.order_placed"
    return [
        f"Gateway   {stack.gateway}   (API: {stack.gateway}/docs)",
        f"Writer    {stack.writer}/metrics",
        f"Key       {stack.api_key}   (for development, kept in {stack.data_dir / FILE_NAME})",
        f"Kafka     {stack.bootstrap}",
        f"Postgres  {dsn}",
        "",
        "Send an event of your own:",
        f"  {curl} -d '{json.dumps(envelope)}'",
        "and see its row:",
        f"  {_psql()} '{dsn}' -c '{select}'",
        "",
        "Ctrl-C stops everything.",
    ]


def _psql() -> str:
    """Return a psql that is there: this machine's, else the embedded server's."""
    import shutil

    from stack.errors import StackError
    from stack.postgres import binaries

    try:
        return "psql" if shutil.which("psql") else str(binaries() / "psql")
    except StackError:
        return "psql"
