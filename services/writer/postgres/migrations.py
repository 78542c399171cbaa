"""Brings the writer's tables in a database up to date (`shared.migrations`).

A database whose schema was created from other files is unusable before any row is written.  A database with
a file of a newer Onramp ends the writer, which may not understand the newer records on Kafka either.
"""

from importlib.resources import files
from typing import Final

from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from shared.migrations import DATABASE_LOCK, Migrations

#: Read as a resource, because a cluster gets the code as an archive.
_FILES: Final = files(__package__) / "sql"


def migrate(database: Database) -> None:
    """Apply the missing files, in one transaction.

    Raise `InfrastructureError`: DATABASE_UNFIT if the schema is not Onramp's, DATABASE_NEWER if it is
    of a newer Onramp.
    """
    with transaction(database, "migrate") as conn:
        Migrations(schema="onramp", files=_FILES, lock=DATABASE_LOCK).apply(conn, database.name)
