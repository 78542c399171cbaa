"""Brings the writer's tables in a database up to date (`shared.migrations`).

A database whose schema was made of another text is out before any row is written.  One with a file of a
newer Onramp ends the writer, because it may not understand what the newer one left on Kafka either.
"""

from importlib.resources import files
from typing import Final

from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from shared.migrations import DATABASE_LOCK, Migrations

#: Read as a resource: a cluster gets the code as an archive.
_FILES: Final = files(__package__) / "sql"


def migrate(database: Database) -> None:
    """Apply the files that are missing, in one transaction.

    Raise `InfrastructureError`: DATABASE_UNFIT when the schema is not ours, DATABASE_NEWER when it is
    a newer Onramp's.
    """
    with transaction(database, "migrate") as conn:
        Migrations(schema="onramp", files=_FILES, lock=DATABASE_LOCK).apply(conn, database.name)
