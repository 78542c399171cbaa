"""Which databases a verb looks into: the writer's own settings, else the stack of `onramp up`."""

import json
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parent.parent.parent

KafkaOption = Annotated[
    str, typer.Option(help="Kafka's brokers, host:port,…", envvar="ONRAMP_KAFKA_BOOTSTRAP")
]
DsnOption = Annotated[
    str | None,
    typer.Option(
        help="The default database; without it the embedded one in --data-dir, if there is one.",
        envvar="ONRAMP_WRITER_DSN",
        show_default=False,
    ),
]
NameOption = Annotated[
    str, typer.Option(help="The default database's public name.", envvar="ONRAMP_WRITER_DATABASE")
]
MoreOption = Annotated[
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


def databases_of(dsn: str | None, name: str, more: str, data_dir: Path) -> dict[str, str]:
    """The databases by public name, the default one first; empty when none is known."""
    found = {}
    if dsn := dsn or _embedded(data_dir):
        found[name] = dsn
    try:
        further = json.loads(more)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"this is no JSON: {error}", param_hint="--databases") from error
    if not isinstance(further, dict):
        raise typer.BadParameter("a JSON object of name to DSN is expected", param_hint="--databases")
    return found | {n: address for n, each in further.items() if (address := _address(each))}


def _address(each: object) -> str | None:
    """The DSN in what the writer's settings say of a database; None: the default one has its own."""
    address = each.get("dsn") if isinstance(each, dict) else each
    if address is not None and not isinstance(address, str):
        raise typer.BadParameter("a JSON object of name to DSN is expected", param_hint="--databases")
    return address


def _embedded(data_dir: Path) -> str | None:
    from stack.postgres import Postgres
    from stack.up import Plan

    folder = data_dir / "postgres"
    return Postgres(folder, Plan(data_dir=data_dir).postgres_port).dsn if folder.is_dir() else None
