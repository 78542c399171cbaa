"""Logs in to a source as its role, for operators: a refusal has libpq's own text, but no password."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import psycopg2
from psycopg2.extensions import parse_dsn

from services.cdc.agent.source_sql import SourceError
from shared.errors import InfrastructureError
from shared.postgres.connect import connect
from shared.postgres.failures import MissingDatabaseError

_OPTIONS: Final = "-c search_path=pg_catalog,pg_temp -c statement_timeout=10000"
_SCHEMAS: Final = """
    SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY 1
"""
_MALFORMED: Final = (
    "the DSN in {} cannot be read: postgresql://ROLE:PASSWORD@HOST:PORT/DATABASE is expected, with "
    "percent-encoding in the password (%40 for @, %2F for /)"
)


def require_login(variable: str, dsn: str) -> None:
    """Raise `SourceError` with libpq's text if the role cannot log in; `variable` has the DSN."""
    with _session(variable, dsn):
        pass


def schemas_of(variable: str, dsn: str) -> list[str]:
    """Return the names of the source's schemas. Raises `SourceError`."""
    with _session(variable, dsn) as cursor:
        cursor.execute(_SCHEMAS)
        return [name for (name,) in cursor.fetchall()]


@contextmanager
def _session(variable: str, dsn: str) -> Iterator[Any]:
    try:
        parameters = parse_dsn(dsn)
    except psycopg2.ProgrammingError:  # libpq's text may repeat parts of the password
        raise SourceError(_MALFORMED.format(variable)) from None
    if "@" in parameters.get("host", ""):  # the end of a password that has an @
        raise SourceError(_MALFORMED.format(variable))
    try:
        with closing(connect(dsn, name="onramp-check", options=_OPTIONS)) as conn, conn.cursor() as cursor:
            yield cursor
    except InfrastructureError as error:
        raise SourceError(error.detail) from None
    except MissingDatabaseError:
        text = f'database "{parameters.get("dbname")}" does not exist'
        raise SourceError(f"cannot log in to the source by {variable}: {text}") from None
    except psycopg2.Error as error:
        text = " ".join(str(error).split())
        if password := parameters.get("password"):
            text = text.replace(password, "***")
        raise SourceError(f"cannot log in to the source by {variable}: {text}") from None
