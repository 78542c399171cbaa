"""Brings Onramp's own schema in a database up to date: numbered files, each applied once.

A file that was applied is never edited: its checksum is compared, and a database with another
text is out before any row is written.  A database with a file of a newer Onramp ends the writer,
because it may not understand what the newer one left on Kafka either.
"""

from collections.abc import Iterable
from hashlib import sha256
from importlib.resources import files
from typing import Final

from psycopg2.extensions import connection

from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from shared.errors import DATABASE_NEWER, DATABASE_UNFIT, InfrastructureError

#: Read as a resource: a cluster gets the code as an archive.
_FILES: Final = files(__package__) / "sql"
#: The advisory lock that writers take to migrate; any number that nothing else uses.
_LOCK: Final = 7_203_155_001

_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS onramp.migrations (
        name text PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
    )
"""


def migrate(database: Database) -> None:
    """Apply the files that are missing, in one transaction.

    Raises `InfrastructureError`: DATABASE_UNFIT when the schema is not ours, DATABASE_NEWER when it is
    a newer Onramp's.
    """
    with transaction(database, "migrate") as conn:
        applied = _applied(conn)
        _require_no_newer(database, applied)
        for file in sorted(_FILES.iterdir(), key=lambda file: file.name):
            text = file.read_text("utf-8")
            checksum = sha256(text.encode()).hexdigest()
            if file.name not in applied:
                _apply(conn, file.name, text, checksum)
            elif applied[file.name] != checksum:
                raise InfrastructureError(
                    DATABASE_UNFIT,
                    f"{file.name} was applied to database {database.name} with another text: "
                    "put the old text back and add a new file for the change",
                )


def _require_no_newer(database: Database, applied: Iterable[str]) -> None:
    """Raise DATABASE_NEWER when a file was applied that this Onramp does not have."""
    if unknown := set(applied) - {file.name for file in _FILES.iterdir()}:
        raise InfrastructureError(
            DATABASE_NEWER,
            f"{', '.join(sorted(unknown))} was applied to database {database.name} by a newer Onramp: "
            "start that version, or one after it",
        )


def _applied(conn: connection) -> dict[str, str]:
    with conn.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        # Not CREATE … IF NOT EXISTS, which needs the right to create even where the object exists.
        cursor.execute("SELECT to_regnamespace('onramp')")
        if cursor.fetchone() == (None,):
            cursor.execute("CREATE SCHEMA onramp")
        cursor.execute("SELECT to_regclass('onramp.migrations')")
        if cursor.fetchone() == (None,):
            cursor.execute(_SCHEMA)
        cursor.execute("SELECT name, checksum FROM onramp.migrations")
        return dict(cursor.fetchall())


def _apply(conn: connection, name: str, text: str, checksum: str) -> None:
    with conn.cursor() as cursor:
        cursor.execute(text)
        cursor.execute("INSERT INTO onramp.migrations (name, checksum) VALUES (%s, %s)", (name, checksum))
