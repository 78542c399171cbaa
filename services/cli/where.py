"""Where a verb looks: Kafka, and the writer's databases by its own settings, else those of `onramp up`.

A verb whose first parameter is `where` says so with `looks`, and gets the options for it.
"""

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shared.kafka_security import Brokers

ROOT = Path(__file__).resolve().parent.parent.parent

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


@dataclass(frozen=True, slots=True)
class Where:
    """Kafka's brokers, and DSNs by database, the default one first; none when none is known."""

    kafka: str
    databases: Mapping[str, str]

    @property
    def brokers(self) -> "Brokers":
        """The same brokers with how they are spoken to, by the services' own settings."""
        from shared.settings import KafkaSettings

        try:
            return KafkaSettings(bootstrap=self.kafka).brokers
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="ONRAMP_KAFKA_*") from error

    def must_know_a_database(self) -> None:
        """Raises `BadParameter` when none is known."""
        if not self.databases:
            raise typer.BadParameter("no database is known: give --dsn", param_hint="--dsn")


def looks(verb: Callable[..., None]) -> Callable[..., None]:
    """`verb` as a command with the options that say where it looks: its `where` is made of them."""
    return _with(_where, verb)


def looks_into_databases(verb: Callable[..., None]) -> Callable[..., None]:
    """The same for a verb that needs no Kafka."""
    return _with(_databases, verb)


def _with(make: Callable[..., Where], verb: Callable[..., None]) -> Callable[..., None]:
    options = inspect.signature(make).parameters
    own = inspect.signature(verb)

    @functools.wraps(verb)
    def run(**given: object) -> None:
        where = make(**{name: given.pop(name) for name in options})
        verb(where, **given)

    parameters = [p for p in own.parameters.values() if p.name != "where"]
    run.__signature__ = own.replace(parameters=[*parameters, *options.values()])  # type: ignore[attr-defined]
    return run


def _where(
    *,
    kafka: Annotated[
        str | None,
        typer.Option(
            help="Kafka's brokers, host:port,…; without it those of `onramp up`.",
            envvar="ONRAMP_KAFKA_BOOTSTRAP",
            show_default=False,
        ),
    ] = None,
    dsn: DsnOption = None,
    database: NameOption = "onramp",
    databases: MoreOption = "{}",
    data_dir: DataDirOption = ROOT / ".onramp",
) -> Where:
    from stack import addresses

    return Where(kafka or addresses.known(data_dir).kafka, _databases_of(dsn, database, databases, data_dir))


def _databases(
    *,
    dsn: DsnOption = None,
    database: NameOption = "onramp",
    databases: MoreOption = "{}",
    data_dir: DataDirOption = ROOT / ".onramp",
) -> Where:
    return Where("", _databases_of(dsn, database, databases, data_dir))


def _databases_of(dsn: str | None, name: str, more: str, data_dir: Path) -> dict[str, str]:
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
    from stack import addresses
    from stack.postgres import Postgres

    folder = data_dir / "postgres"
    return Postgres(folder, addresses.known(data_dir).postgres_port).dsn if folder.is_dir() else None
