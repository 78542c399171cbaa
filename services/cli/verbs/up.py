"""`onramp up`: everything on this machine, and the main job on real flights."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from services.cli.exits import Exit, complain
from services.cli.options import DATA_DIR, DatabaseOption, DatabasesOption, DataDirOption
from services.cli.stack_run import StackRun
from stack import flights
from stack.plan import Plan

_USUAL: Final = Path("onramp.yaml")
GivenDsnOption = Annotated[
    str | None,
    typer.Option(help="Use this Postgres instead of the embedded one.", envvar="ONRAMP_WRITER_DSN"),
]
GivenKafkaOption = Annotated[
    str | None,
    typer.Option(
        help="Use these brokers (host:port,…) instead of the embedded one.",
        envvar="ONRAMP_KAFKA_BOOTSTRAP",
    ),
]
BrokersOption = Annotated[
    int,
    typer.Option(help="Brokers of the embedded Kafka: 1, or 3 with every topic on all of them (min ISR 2)."),
]
EventsOption = Annotated[
    int, typer.Option(min=0, max=flights.TOTAL, help="How many flights to send; 0 sends none.")
]
RegistryOption = Annotated[
    Path | None,
    typer.Option(
        help="The registry's file, applied at the start and whenever it changes; without it onramp.yaml of "
        "this folder, if it is there and Kafka is the embedded one.",
        show_default=False,
    ),
]
ExitOption = Annotated[bool, typer.Option("--exit", help="Stop everything when the flights have landed.")]
ResultAsJsonOption = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON; progress goes to standard error.")
]

PrometheusOption = Annotated[
    bool,
    typer.Option(
        "--prometheus",
        help="Start Prometheus as well, with the alerts of deploy/prometheus. It uses the program on the "
        "PATH, else Debian's package, which apt downloads.",
    ),
]

LakeOption = Annotated[
    bool,
    typer.Option(
        "--lake", help="Land every event type in Delta tables as well, in the folder lake of --data-dir."
    ),
]

SourceDemoOption = Annotated[
    bool,
    typer.Option(
        "--source-demo",
        help="Create a second database with flights, airlines, airports, planes and weather, and capture it "
        "as a source.",
    ),
]


def up(
    *,
    data_dir: DataDirOption = DATA_DIR,
    dsn: GivenDsnOption = None,
    kafka: GivenKafkaOption = None,
    brokers: BrokersOption = 1,
    registry: RegistryOption = None,
    database: DatabaseOption = "onramp",
    databases: DatabasesOption = "{}",
    events: EventsOption = flights.TOTAL,
    leave: ExitOption = False,
    prometheus: PrometheusOption = False,
    lake: LakeOption = False,
    source_demo: SourceDemoOption = False,
    as_json: ResultAsJsonOption = False,
) -> None:
    """Start Kafka, Postgres, the gateway and the writer, and send real flights through them.

    Stays up until Ctrl-C, which stops everything in reverse order. Landed rows stay in
    --data-dir; the next start continues from there. Examples:

    onramp up                     everything, and stay up

    onramp up --events 1000 --exit --json     a quick check for a script

    onramp up --dsn postgresql://me:secret@db.example/test     into a database of your own

    onramp up --brokers 3 --data-dir .onramp/three     one broker may be lost at any time

    onramp up --registry shop.yaml     event types and keys; edit the file and see it work

    onramp up --events 0 --source-demo     the changes of another database as rows here

    onramp up --lake              the same events in Delta tables

    onramp up --prometheus        and see its alerts on http://127.0.0.1:9090
    """
    from services.cli.connection_options import kafka_and_databases
    from services.cli.terminal import report_to

    _require_supported(brokers, kafka, foreign_demo=source_demo and dsn is not None)
    file = _registry_file(registry, kafka)
    plan = Plan(
        data_dir=data_dir.absolute(),
        bootstrap=kafka,
        dsn=dsn,
        brokers=brokers,
        prometheus=prometheus,
        lake=lake,
        source_demo=source_demo,
        writer_env={"ONRAMP_WRITER_DATABASE": database, "ONRAMP_WRITER_DATABASES": databases},
    )
    report = report_to(sys.stderr if as_json else sys.stdout)
    where = partial(kafka_and_databases, database=database, databases=databases)
    run = StackRun(plan, report, events=events, leave=leave, as_json=as_json, registry=file, where=where)
    raise typer.Exit(run.run())


def _registry_file(named: Path | None, kafka: str | None) -> Path | None:
    """Return the file to follow. An invalid file ends the verb before anything starts.

    Brokers given by the user, which others may use as well, get only what was named.
    """
    from shared.registry.file import RegistryFileError, load

    usual = _USUAL if _USUAL.exists() else None
    if usual and kafka is not None and named is None:
        complain(f"{usual} is not applied to brokers that others may use: --registry {usual} applies it")
    file = named or (usual if kafka is None else None)
    if file is not None:
        try:
            load(file)
        except RegistryFileError as error:
            complain(str(error))
            raise typer.Exit(Exit.FAILED) from None
    return file


def _require_supported(brokers: int, kafka: str | None, *, foreign_demo: bool) -> None:
    if foreign_demo:
        raise typer.BadParameter("its database is made only without --dsn", param_hint="--source-demo")
    if brokers not in (1, 3):
        raise typer.BadParameter(f"{brokers} are not supported: 1 or 3", param_hint="--brokers")
    if kafka is not None and brokers != 1:
        raise typer.BadParameter("brokers are started only without --kafka", param_hint="--brokers")
