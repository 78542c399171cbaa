"""Shared options of verbs: name, help and environment variable."""

from pathlib import Path
from typing import Annotated, Final

import typer

ROOT: Final = Path(__file__).resolve().parent.parent.parent
#: The default data folder of `onramp up`.
DATA_DIR: Final = ROOT / ".onramp"

KafkaOption = Annotated[
    str | None,
    typer.Option(
        help="Kafka's brokers, host:port,…; without it those of `onramp up`.",
        envvar="ONRAMP_KAFKA_BOOTSTRAP",
        show_default=False,
    ),
]
DsnOption = Annotated[
    str | None,
    typer.Option(
        help="The default database; without it the embedded one in --data-dir, if there is one.",
        envvar="ONRAMP_WRITER_DSN",
        show_default=False,
    ),
]
DatabaseOption = Annotated[
    str, typer.Option(help="The default database's public name.", envvar="ONRAMP_WRITER_DATABASE")
]
DatabasesOption = Annotated[
    str,
    typer.Option(
        help="Further databases: a JSON object of public name to DSN.", envvar="ONRAMP_WRITER_DATABASES"
    ),
]
DataDirOption = Annotated[
    Path,
    typer.Option(
        help="Where `onramp up` keeps its data.",
        envvar="ONRAMP_DATA_DIR",
        show_default=".onramp in the project's folder",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
WriterOption = Annotated[
    str | None,
    typer.Option(help="The writer's address; without it that of `onramp up`.", show_default=False),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        help="Events since then: 24h, 30m, 7d, or 2026-01-31T08:00:00Z; the last 24 hours unless given.",
        show_default=False,
    ),
]
LastOption = Annotated[
    int | None, typer.Option(help="Number of the last events of each topic instead.", show_default=False)
]
