"""Migrates the tables of change data capture in a database (`shared.migrations`).

The agent and the merger both apply the migrations before they use the tables, whichever starts first. Neither
waits for the writer, which has migrations of its own.
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
    """Apply the missing files in one transaction; `database` is a name for messages.

    Raises `InfrastructureError`: DATABASE_UNFIT when the schema is not Onramp's, DATABASE_NEWER when a
    newer Onramp wrote it.
    """
    with conn:
        _MIGRATIONS.apply(conn, database)
