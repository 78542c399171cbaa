"""Builds the error of a database that is unusable, with the SQL that grants a missing right.

No event is at fault: the database is unusable, its events wait, and it is retried, so it recovers
as soon as an operator has fixed it.
"""

from contextlib import suppress
from typing import Final

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.postgres.database import Database
from services.writer.postgres.error_faults import translate
from shared.errors import DATABASE_UNAVAILABLE, DATABASE_UNFIT, InfrastructureError

#: Missing rights, and objects that are missing or not as Onramp created them.
_UNFIT_CLASSES: Final = frozenset({"42", "3F"})
_NO_PERMISSION: Final = "42501"
#: The rights that each role needs, as in docs/operating.md.
_OF_THE_OWNER: Final = """
    GRANT CONNECT, CREATE ON DATABASE {database} TO {role};
    CREATE SCHEMA IF NOT EXISTS onramp AUTHORIZATION {role};
    CREATE SCHEMA IF NOT EXISTS events AUTHORIZATION {role};
    GRANT USAGE, CREATE ON SCHEMA onramp, events TO {role};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA onramp TO {role};
"""
_OF_THE_WRITER: Final = """
    GRANT CONNECT, TEMPORARY ON DATABASE {database} TO {role};
    GRANT USAGE ON SCHEMA onramp, events TO {role};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA onramp TO {role};
    GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA events TO {role};
"""


def of_database(
    error: psycopg2.Error, conn: connection, database: Database, role: str
) -> InfrastructureError:
    """Return the error to raise for `error`, after which `conn` was rolled back."""
    state = error.pgcode or ""
    detail = translate(error, database).detail
    if state[:2] not in _UNFIT_CLASSES:
        return InfrastructureError(DATABASE_UNAVAILABLE, detail)
    if state == _NO_PERMISSION:
        # The message names the object and contains no value.
        detail += f": {error.diag.message_primary}; as a superuser of it: {_grants(conn, role)}"
    return InfrastructureError(DATABASE_UNFIT, detail)


def _grants(conn: connection, role: str) -> str:
    """Return the SQL that grants the connection's role its missing rights."""
    script = sql.SQL(_OF_THE_OWNER if role == "migrate" else _OF_THE_WRITER).format(
        database=sql.Identifier(conn.info.dbname),
        role=sql.Identifier(_acting_as(conn)),
    )
    return " ".join(script.as_string(conn).split())


def _acting_as(conn: connection) -> str:
    """Return the role that the server checks: options in the address may set a role other than the login."""
    with suppress(psycopg2.Error), conn.cursor() as cursor:
        cursor.execute("SELECT current_user")
        (name,) = cursor.fetchone() or (conn.info.user,)
        conn.rollback()
        return str(name)
    return str(conn.info.user)
