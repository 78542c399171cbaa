"""Brings the tables of change data capture in a database up to date (`shared.migrations`).

The agent and the modeler both apply the migrations before they use the tables, whichever starts first.
Neither waits for the writer, which has migrations of its own.
"""

from importlib.resources import files
from typing import Final

from psycopg2.extensions import connection

from shared.migrations import DATABASE_LOCK, Migrations

#: The agent's schema, which also has the table of applied migrations.
SCHEMA: Final = "onramp_agent"
_MIGRATIONS: Final = Migrations(
    schema=SCHEMA, files=files(__package__) / "sql", lock=DATABASE_LOCK, shared=("onramp",)
)


def migrate(conn: connection, database: str) -> None:
    """Apply the files that are missing, in one transaction; `database` is a name for messages.

    Raises `InfrastructureError`: DATABASE_UNFIT when the schema is not ours, DATABASE_NEWER when it is
    a newer Onramp's.
    """
    with conn:
        _MIGRATIONS.apply(conn, database)
