"""Migrates Onramp's own schemas: numbered files, each applied once.

An applied file is never edited: its checksum is compared, and a schema that was created from another
text is refused before any write. A schema with a file of a newer Onramp is refused too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources.abc import Traversable
from typing import Final

from psycopg2 import sql
from psycopg2.extensions import connection

from shared.errors import DATABASE_NEWER, DATABASE_UNFIT, InfrastructureError

#: The advisory lock of all processes that migrate a database where events land: the writer and those of CDC
#: may both create the schema `onramp`.  Any number that nothing else uses.
DATABASE_LOCK: Final = 7_203_155_001
_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS {} (
        name text PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
    )
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrations:
    """The files of a schema; `lock` is the advisory lock under which they are applied.

    `schema` has the table of applied files. `shared` are schemas of other owners in which the files create
    tables too: the first owner creates the schema.
    """

    schema: str
    files: Traversable
    lock: int
    shared: Sequence[str] = ()

    def apply(self, conn: connection, database: str) -> None:
        """Apply missing files in the caller's transaction; `database` is a name for messages.

        Raises `InfrastructureError`: DATABASE_UNFIT if the schema is not ours, DATABASE_NEWER if it is
        from a newer Onramp.
        """
        applied = self._applied(conn)
        self._require_no_newer(database, applied)
        for file in sorted(self.files.iterdir(), key=lambda file: file.name):
            text = file.read_text("utf-8")
            checksum = sha256(text.encode()).hexdigest()
            if file.name not in applied:
                self._apply(conn, file.name, text, checksum)
            elif applied[file.name] != checksum:
                raise InfrastructureError(
                    DATABASE_UNFIT,
                    f"{file.name} was applied to database {database} with a different text: restore the old "
                    f"text and add a new file for the change",
                )

    @property
    def _table(self) -> sql.Identifier:
        return sql.Identifier(self.schema, "migrations")

    def _require_no_newer(self, database: str, applied: Iterable[str]) -> None:
        if unknown := set(applied) - {file.name for file in self.files.iterdir()}:
            raise InfrastructureError(
                DATABASE_NEWER,
                f"{', '.join(sorted(unknown))} was applied to database {database} by a newer Onramp: "
                "start that version, or one after it",
            )

    def _applied(self, conn: connection) -> dict[str, str]:
        with conn.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (self.lock,))
            # Not CREATE … IF NOT EXISTS, which needs the right to create even where the object exists.
            for schema in (self.schema, *self.shared):
                cursor.execute("SELECT to_regnamespace(%s)", (schema,))
                if cursor.fetchone() == (None,):
                    cursor.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
            cursor.execute("SELECT to_regclass(%s)", (f"{self.schema}.migrations",))
            if cursor.fetchone() == (None,):
                cursor.execute(sql.SQL(_TABLE).format(self._table))
            cursor.execute(sql.SQL("SELECT name, checksum FROM {}").format(self._table))
            return dict(cursor.fetchall())

    def _apply(self, conn: connection, name: str, text: str, checksum: str) -> None:
        insert = sql.SQL("INSERT INTO {} (name, checksum) VALUES (%s, %s)").format(self._table)
        with conn.cursor() as cursor:
            cursor.execute(text)
            cursor.execute(insert, (name, checksum))
