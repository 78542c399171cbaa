"""`onramp plan`: what a change of the registry would do to the events that Kafka holds."""

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from services.cli.connection_options import kafka_and_databases
from services.cli.options import (
    DATA_DIR,
    DatabaseOption,
    DatabasesOption,
    DataDirOption,
    DsnOption,
    JsonOption,
    KafkaOption,
    LastOption,
    SinceOption,
)

FileArgument = Annotated[Path, typer.Argument(help="The registry's new file.")]
EventOption = Annotated[
    list[str] | None,
    typer.Option("--event", help="An event name or a pattern of them; may be repeated.", show_default=False),
]


def plan(
    file: FileArgument,
    *,
    since: SinceOption = None,
    last: LastOption = None,
    event: EventOption = None,
    as_json: JsonOption = False,
    kafka: KafkaOption = None,
    dsn: DsnOption = None,
    database: DatabaseOption = "onramp",
    databases: DatabasesOption = "{}",
    data_dir: DataDirOption = DATA_DIR,
) -> None:
    """Test a change of the registry on the events in Kafka; nothing is written.

    Each event is evaluated by the registry in force, and by the file. Exits with 1 when an event newly fails
    or the file is invalid, with 4 when none does but not all could be evaluated, and with 3 when Kafka cannot
    be read. Examples:

    onramp plan onramp.yaml --since 24h

    onramp plan onramp.yaml --last 100000 --event "order_*" --json
    """
    where = kafka_and_databases(
        kafka=kafka, dsn=dsn, database=database, databases=databases, data_dir=data_dir
    )
    if database not in where.databases:
        raise typer.BadParameter("the default database is not known: give --dsn", param_hint="--dsn")
    os.environ |= {
        "ONRAMP_KAFKA_BOOTSTRAP": where.kafka,
        "ONRAMP_WRITER_DATABASE": database,
        "ONRAMP_WRITER_DSN": where.databases[database],
        "ONRAMP_WRITER_DATABASES": databases,
    }
    options = [*_said("--since", since), *_said("--last", last), *(["--json"] if as_json else [])]
    options += [word for pattern in event or () for word in _said("--event", pattern)]
    _become(*options, "--", str(file))


def _said(option: str, value: object) -> list[str]:
    return [] if value is None else [f"{option}={value}"]


def _become(*arguments: str) -> NoReturn:
    """Replace this process by the plan's, so that signals and the exit code are its own."""
    from stack.java import find_java

    os.environ["JAVA_HOME"] = str(find_java().home)
    os.execv(sys.executable, [sys.executable, "-m", "services.writer.plan", *arguments])  # noqa: S606 - no shell
