"""`onramp audit`: whether every event is in exactly one place for each of its destinations."""

import asyncio
import json
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.connection_options import Where, with_where_options
from services.cli.exits import Exit, exits_when_unavailable
from services.cli.lake_options import LakeOption, lake_of
from services.cli.options import JsonOption
from services.cli.show.audit_report import parts_of
from services.cli.show.tables import show

if TYPE_CHECKING:
    from services.ops.findings import Report

TopicsOption = Annotated[
    str, typer.Option(help="Regular expression of the event topics.", envvar="ONRAMP_WRITER_TOPICS")
]
DeepOption = Annotated[
    bool | None,
    typer.Option(
        "--deep/--totals",
        help="Read every event and list violations by receipt, or compare totals only; "
        "by default it reads up to 2 million events.",
        show_default=False,
    ),
]
ControlOption = Annotated[
    str | None,
    typer.Option(
        "--control",
        help="The control database, where `onramp admin` stores parked events; by default the default "
        "database, if it has that schema.",
        envvar="ONRAMP_ADMIN_DSN",
        show_default=False,
    ),
]
MetricsOption = Annotated[
    Path | None,
    typer.Option(
        "--metrics",
        help="Write the result to this file too, for the textfile collector of Prometheus' node exporter; "
        "its name ends in .prom. It is not written if a database was not read.",
        show_default=False,
    ),
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print each partition although all totals reconcile.")
]


@with_where_options
def audit(
    where: Where,
    *,
    topics: TopicsOption = r"events\..+",
    deep: DeepOption = None,
    control: ControlOption = None,
    lake_url: LakeOption = None,
    metrics: MetricsOption = None,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Prove from stored data that no event is lost or duplicated.

    Parked events are compared with those that `onramp admin` stores, and replays with the databases. Rows of
    the lake's tables are compared with the tables' own counts, and with --deep by receipt.
    A database that does not answer is named, and the others are checked without it.
    Exits with 0 when all totals reconcile, 1 for violations, 3 when Kafka or every database cannot be
    reached, 4 when there is no violation but some events cannot be checked. Nothing is changed; the writer
    may run. Examples:

    onramp audit

    onramp audit --deep --json

    onramp audit --metrics /var/lib/node_exporter/onramp.prom

    ONRAMP_WRITER_DSN=postgresql://me@db.example/test onramp audit --kafka kafka.example:9092
    """
    from services.ops.audit.run import Request
    from services.ops.audit.run import audit as run_audit
    from services.ops.transforms.output_topics import output_topics_of

    _require_pattern(topics)
    where.require_database()
    with exits_when_unavailable():
        kept_in = control or next(iter(where.databases.values()))
        outputs = partial(output_topics_of, where.kafka_settings)
        lake = lake_of(where, lake_url)
        request = Request(where.brokers, where.databases, topics, deep, kept_in, outputs, lake)
        report = asyncio.run(run_audit(request))
    if metrics and not report.unreachable:
        _write(report, metrics)
    if as_json:
        print(json.dumps(report.as_dict()))
    else:
        show(*parts_of(report, verbose=verbose))
    raise typer.Exit(_exit_code(report))


def _write(report: "Report", file: Path) -> None:
    from services.cli.show import audit_metrics

    try:
        audit_metrics.write(report, file)
    except OSError as error:
        raise typer.BadParameter(
            f"{file} cannot be written: {error.strerror}", param_hint="--metrics"
        ) from error


def _require_pattern(topics: str) -> None:
    try:
        re.compile(topics)
    except re.error as error:
        raise typer.BadParameter(f"not a regular expression: {error}", param_hint="--topics") from error


def _exit_code(report: "Report") -> Exit:
    if report.findings:
        return Exit.FAILED
    return Exit.OK if report.balanced else Exit.UNCHECKED
