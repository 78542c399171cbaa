"""The configured databases: their addresses, and the settings of the writer's sessions."""

from dataclasses import KW_ONLY, dataclass, field

from psycopg2.extensions import parse_dsn

from services.writer.model.routes import OPEN_SCHEMAS
from services.writer.settings import DatabaseSettings, WriterSettings


@dataclass(frozen=True, slots=True)
class Database:
    """A configured database.  Messages select it only by `name` (its vanity).

    `ddl_dsn` is the address for the role that owns tables, empty if the writing role owns them;
    `options` are the sessions' settings in libpq's format.
    `keep`: connections are pooled from batch to batch.
    """

    name: str
    dsn: str = field(repr=False)
    _: KW_ONLY
    options: str = ""
    dbname: str = ""
    ddl_dsn: str = field(default="", repr=False)
    schemas: tuple[str, ...] = OPEN_SCHEMAS
    max_connections: int | None = None
    max_rows_per_second: float | None = None
    keep: bool = True
    #: Seconds without an answer, busy or not, after which the database counts as unreachable.
    liveness_timeout_seconds: float = 1.0


def configured(settings: WriterSettings) -> list[Database]:
    """Return the databases of `settings`, the default one first."""
    named = {settings.database: DatabaseSettings(dsn=settings.dsn)} | settings.databases
    return [_configured(name, each, settings) for name, each in named.items()]


def _configured(name: str, each: DatabaseSettings, writers: WriterSettings) -> Database:
    dsn = (each.dsn or writers.dsn).get_secret_value()
    options = {
        "search_path": "pg_catalog,pg_temp",
        "statement_timeout": _or(each.statement_timeout_ms, writers.statement_timeout_ms),
        "lock_timeout": _or(each.lock_timeout_ms, writers.lock_timeout_ms),
        "idle_in_transaction_session_timeout": _or(
            each.idle_in_transaction_ms, writers.idle_in_transaction_ms
        ),
        "timezone": "UTC",
        # They decide how texts are parsed, and a role may have other settings.
        "intervalstyle": "postgres",
        "array_nulls": "on",
    }
    return Database(
        name,
        dsn,
        options=" ".join(f"-c {k}={v}" for k, v in options.items()),
        dbname=parse_dsn(dsn).get("dbname", ""),
        ddl_dsn=each.ddl_dsn.get_secret_value() if each.ddl_dsn else "",
        schemas=each.schemas,
        max_connections=each.max_connections,
        max_rows_per_second=each.max_rows_per_second,
        liveness_timeout_seconds=each.liveness_timeout_seconds or writers.liveness_timeout_seconds,
    )


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
