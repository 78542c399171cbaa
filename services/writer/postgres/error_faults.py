"""Converts psycopg2's errors into Onramp's: whether the event, its table or the database is at fault."""

from typing import Final

import psycopg2

from services.writer.postgres.database import Database
from services.writer.postgres.sqlstates import Verdict, verdict
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
