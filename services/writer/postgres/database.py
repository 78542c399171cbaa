"""The configured databases, and the translation of psycopg2's errors into Onramp's.

Together with `pool` and the modules that contain SQL, this module owns psycopg2 for the writer.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import psycopg2
from psycopg2.extensions import parse_dsn

from services.writer.model.routes import OPEN_SCHEMAS
from services.writer.postgres.sqlstates import Verdict, verdict
from services.writer.settings import DatabaseSettings, WriterSettings
from shared.errors import (
    DATA_REJECTED,
    DATABASE_UNAVAILABLE,
    NO_PERMISSION,
    InfrastructureError,
    OnrampError,
    UserError,
)
from shared.postgres.failures import failure

_NO_PERMISSION: Final = "42501"
#: Functions of the server in which procedural languages raise a function's own errors: PL/pgSQL's
#: RAISE and ASSERT, PL/Python, PL/Tcl.
_RAISES: Final = frozenset({"exec_stmt_raise", "exec_stmt_assert", "PLy_elog_impl", "throw_tcl_error"})


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


def is_a_functions_own(error: psycopg2.Error) -> bool:
    """Return whether a trigger or another function of the table's owner raised `error`.

    Such a function chooses the SQLSTATE, which says nothing about the server: "08006" may be any rule that
    a row breaks.
    """
    diag = getattr(error, "diag", None)
    return diag is not None and diag.source_function in _RAISES


def translate(error: psycopg2.Error, database: Database) -> OnrampError:
    """Convert `error`, without its message and DETAIL, in which Postgres echoes values.

    Return a `UserError` if the row or its table is at fault, otherwise an `InfrastructureError`.
    """
    state = error.pgcode
    diag = getattr(error, "diag", None)
    objects = ", ".join(
        f"{kind} {name}"
        for kind, name in (
            ("table", diag and diag.table_name),
            ("column", diag and diag.column_name),
            ("constraint", diag and diag.constraint_name),
        )
        if name
    )
    detail = failure(f"database {database.name}", error, "none (connection lost or refused)")
    detail = f"{detail}, {objects}" if objects else detail
    if state == _NO_PERMISSION:
        return _of_database(UserError(NO_PERMISSION, detail), error)
    if verdict(state) is Verdict.PARK:
        return _of_database(UserError(DATA_REJECTED, detail), error)
    return InfrastructureError(DATABASE_UNAVAILABLE, detail)


def _of_database(translated: UserError, error: psycopg2.Error) -> UserError:
    diag = getattr(error, "diag", None)
    column, constraint = (diag.column_name, diag.constraint_name) if diag else (None, None)
    return translated.of_database(error.pgcode, column, constraint)
