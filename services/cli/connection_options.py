"""Connection options of verbs: Kafka, and the writer's databases, else those of `onramp up`.

A decorator adds these options to a verb whose first parameter is `where`.
"""

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from services.cli.options import (
    DATA_DIR,
    DatabaseOption,
    DatabasesOption,
    DataDirOption,
    DsnOption,
    KafkaOption,
)

if TYPE_CHECKING:
    from shared.kafka_security import Brokers
    from shared.registry import Snapshot
    from shared.settings import KafkaSettings


@dataclass(frozen=True, slots=True)
class Where:
    """Kafka's brokers, and DSNs by database, the default one first; empty if none is known."""

    kafka: str
    databases: Mapping[str, str]
    #: Schemas by database, if they are not the default ones.
    schemas: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: The address of the writer of `onramp up`.
    writer: str = ""
    #: DSNs of separate roles that own tables, by database.
    owners: Mapping[str, str] = field(default_factory=dict, repr=False, kw_only=True)
    #: The folder of `onramp up`.
    data_dir: Path = field(default=DATA_DIR, kw_only=True)

    def open_schemas(self, database: str) -> tuple[str, ...]:
        """Return the schemas of a database to which the writer may write."""
        from shared.landing_columns import OPEN_SCHEMAS

        return self.schemas.get(database, OPEN_SCHEMAS)

    @property
    def brokers(self) -> "Brokers":
        """Return the brokers with the security settings of the services.

        Raises:
            typer.BadParameter: the settings contradict each other.
        """
        return self.kafka_settings.brokers

    @property
    def kafka_settings(self) -> "KafkaSettings":
        """Return the services' Kafka settings. Raises `typer.BadParameter` as `brokers` does."""
        return _settings(self.kafka)

    def registry(self) -> "Snapshot":
        """Return the registry in force.  Raises `InfrastructureError`."""
        from services.ops.registry.change import editing

        with editing(self.kafka_settings) as editor:
            return editor.chain.snapshot()

    def require_database(self) -> None:
        """Raise `typer.BadParameter` when no database is known."""
        if not self.databases:
            raise typer.BadParameter("no database is known: give --dsn", param_hint="--dsn")


def kafka_settings(kafka: str | None, data_dir: Path) -> "KafkaSettings":
    """Return the services' Kafka settings, for the given brokers or those of `onramp up`.

    Raises:
        typer.BadParameter: the settings contradict each other.
    """
    from stack import addresses

    return _settings(kafka or addresses.known(data_dir).kafka)


def _settings(bootstrap: str) -> "KafkaSettings":
    from shared.settings import KafkaSettings

    try:
        return KafkaSettings(bootstrap=bootstrap)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="ONRAMP_KAFKA_*") from error


def with_where_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Return `verb` as a command with options for Kafka and databases, which form its `where`."""
    return _with(kafka_and_databases, verb)


def with_database_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Return `verb` as a command with options for databases only."""
    return _with(databases_alone, verb)


def _with(make: Callable[..., Where], verb: Callable[..., None]) -> Callable[..., None]:
    where_options = inspect.signature(make).parameters
    own = inspect.signature(verb)

    @functools.wraps(verb)
    def run(**options: object) -> None:
        where = make(**{name: options.pop(name) for name in where_options})
        verb(where, **options)

    parameters = [p for p in own.parameters.values() if p.name != "where"]
    run.__signature__ = own.replace(parameters=[*parameters, *where_options.values()])  # type: ignore[attr-defined]
    return run


def kafka_and_databases(
    *,
    kafka: KafkaOption = None,
    dsn: DsnOption = None,
    database: DatabaseOption = "onramp",
    databases: DatabasesOption = "{}",
    data_dir: DataDirOption = DATA_DIR,
) -> Where:
    """Return the given connections, else those that `onramp up` has stored in `data_dir`."""
    from stack import addresses

    known = addresses.known(data_dir)
    by_name = _by_name(dsn, database, databases, data_dir)
    owners = _owners(databases)
    schemas = _schemas(databases)
    return Where(kafka or known.kafka, by_name, schemas, known.writer, owners=owners, data_dir=data_dir)


def databases_alone(
    *,
    dsn: DsnOption = None,
    database: DatabaseOption = "onramp",
    databases: DatabasesOption = "{}",
    data_dir: DataDirOption = DATA_DIR,
) -> Where:
    """Return the database connections without Kafka."""
    return Where("", _by_name(dsn, database, databases, data_dir), _schemas(databases))


def _by_name(dsn: str | None, default: str, further: str, data_dir: Path) -> dict[str, str]:
    """Return DSNs by public name, the default database's first; empty if none is known."""
    address = dsn or _embedded_dsn(data_dir)
    by_name = {default: address} if address else {}
    return by_name | {name: each for name, value in _parsed(further).items() if (each := _dsn_in(value))}


def _parsed(databases: str) -> dict[str, object]:
    try:
        document = json.loads(databases)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--databases") from error
    if not isinstance(document, dict):
        raise typer.BadParameter("a JSON object of name to DSN is expected", param_hint="--databases")
    return document


def _dsn_in(value: object) -> str | None:
    """Return the DSN in the writer's settings of a database, or None for the default database."""
    address = value.get("dsn") if isinstance(value, dict) else value
    if address is not None and not isinstance(address, str):
        raise typer.BadParameter("a JSON object of name to DSN is expected", param_hint="--databases")
    return address


def _schemas(databases: str) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(map(str, named))
        for name, value in _parsed(databases).items()
        if isinstance(value, dict) and isinstance(named := value.get("schemas"), list)
    }


def _owners(databases: str) -> dict[str, str]:
    return {
        name: address
        for name, value in _parsed(databases).items()
        if isinstance(value, dict) and isinstance(address := value.get("ddl_dsn"), str)
    }


def _embedded_dsn(data_dir: Path) -> str | None:
    from stack import addresses
    from stack.postgres import Postgres

    folder = data_dir / "postgres"
    return Postgres(folder, addresses.known(data_dir).postgres_port).dsn if folder.is_dir() else None
