"""SQL of the tracer: the rows of its tracers in each database, its own table, and its trims.

Owns psycopg2 for this service.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

import psycopg2
from psycopg2 import errors
from psycopg2.extensions import connection

from services.tracer.results import Destination
from shared import wire
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from shared.postgres.answering import PersistentConnection
from shared.postgres.connect import connect, has_table
from shared.postgres.failures import failure

log = logging.getLogger(__name__)

LANDING: Final = f"events.{wire.PROBE_EVENT}"
#: Packets land here: a table without a unique key, in which a second landing is a second row.
PACKETS: Final = f"public.{wire.PROBE_EVENT}"
PACKET_SCHEMA: Final = "public"
#: Messages of syslog land here, among those of users; the tracer's have this name of a program.
SYSLOG: Final = "events.syslog_message"
SYSLOG_APP: Final = wire.PROBE_EVENT
_PATIENCE_SECONDS: Final = 2.0
_OPTIONS: Final = "-c search_path=pg_catalog,pg_temp -c timezone=UTC -c statement_timeout=5000"
_CREATE: Final = f"""
    CREATE TABLE IF NOT EXISTS {PACKETS} (id text NOT NULL, entrance text, sent_at timestamptz);
    CREATE INDEX IF NOT EXISTS onramp_probe_by_id ON {PACKETS} (id)
"""
#: Finds the tracer's messages among those of users. A large table would be locked for long while the index is
#: created, so its owner creates it there.
_SYSLOG_INDEX: Final = f"""CREATE INDEX IF NOT EXISTS syslog_message_of_tracer ON {SYSLOG}
    ((payload->>'message')) WHERE payload->>'app_name' = '{SYSLOG_APP}'"""
_HAS_INDEX: Final = """SELECT pg_relation_size(c.oid), EXISTS (
        SELECT FROM pg_index i JOIN pg_class n ON n.oid = i.indexrelid
        WHERE i.indrelid = c.oid AND i.indisvalid AND n.relname = 'syslog_message_of_tracer')
    FROM pg_class c WHERE c.oid = to_regclass(%s)"""
_SMALL_BYTES: Final = 32 << 20
_DUPLICATES: Final = """SELECT coalesce(sum(events), 0)::int8 FROM onramp.totals
    WHERE destination = %s AND outcome = 'duplicate'"""
_COUNT: Final = {
    LANDING: f"SELECT _id, count(*) FROM {LANDING} WHERE _id = ANY (%s) GROUP BY 1",  # noqa: S608 - our own
    PACKETS: f"SELECT id, count(*) FROM {PACKETS} WHERE id = ANY (%s) GROUP BY 1",  # noqa: S608
    SYSLOG: f"SELECT payload->>'message', count(*) FROM {SYSLOG} "  # noqa: S608
    f"WHERE payload->>'app_name' = '{SYSLOG_APP}' AND payload->>'message' = ANY (%s) GROUP BY 1",
}
_TRIM: Final = {
    LANDING: f"DELETE FROM {LANDING} WHERE _received_at < now() - interval '1 day'",  # noqa: S608
    PACKETS: f"DELETE FROM {PACKETS} WHERE sent_at < now() - interval '1 day'",  # noqa: S608
    SYSLOG: f"DELETE FROM {SYSLOG} WHERE payload->>'app_name' = '{SYSLOG_APP}' "  # noqa: S608
    "AND _received_at < now() - interval '1 day'",
}


class Rows:
    """The tables of one database."""

    def __init__(self, name: str, dsn: str) -> None:
        self.name = name
        #: Whether the table of packets existed when it was last needed.
        self.has_packets = True

        def open_() -> connection:
            return connect(dsn, name="onramp-tracer", options=_OPTIONS)

        self._connection = PersistentConnection(f"database {name}", dsn, open_, _PATIENCE_SECONDS)

    def prepare(self) -> None:
        """Create the packets' table if it is missing.  Raises `InfrastructureError`."""
        try:
            with self._connection.used() as conn, conn, conn.cursor() as cursor:
                if not has_table(conn, PACKETS):
                    cursor.execute(_CREATE)
            self.has_packets = True
        except psycopg2.Error as e:
            raise self._failure(e) from None

    def prepare_syslog(self) -> str:
        """Create the index of the tracer's messages; return why they cannot be found, or an empty text.

        Raises `InfrastructureError`.
        """
        try:
            with self._connection.used() as conn, conn, conn.cursor() as cursor:
                cursor.execute(_HAS_INDEX, (SYSLOG,))
                size, has_index = cursor.fetchone() or (0, True)  # the writer creates the table later
                if has_index:
                    return ""
                if size > _SMALL_BYTES:
                    return (
                        f"{SYSLOG} has no index of the tracer's messages: {' '.join(_SYSLOG_INDEX.split())}"
                    )
                cursor.execute(_SYSLOG_INDEX)
        except psycopg2.Error as e:
            raise self._failure(e) from None
        return ""

    def duplicates(self) -> int:
        """Return the number of envelopes of tracers whose row existed.  Raises `InfrastructureError`."""
        try:
            with self._connection.used() as conn, conn, conn.cursor() as cursor:
                if not has_table(conn, "onramp.totals"):
                    return 0
                cursor.execute(_DUPLICATES, (LANDING,))
                ((events,),) = cursor.fetchall()
        except psycopg2.Error as e:
            raise self._failure(e) from None
        return int(events)

    def count(self, wanted: Mapping[str, Iterable[str]]) -> dict[tuple[Destination, str], int]:
        """Return the number of rows of each id, by table.  Raises `InfrastructureError`.

        A table that is missing has no rows: the writer creates the landing table with the first event.
        """
        found: dict[tuple[Destination, str], int] = {}
        try:
            with self._connection.used() as conn, conn, conn.cursor() as cursor:
                for table, ids in wanted.items():
                    exists = has_table(conn, table)
                    if table == PACKETS:
                        self.has_packets = exists
                    if not exists:
                        continue
                    cursor.execute(_COUNT[table], (list(ids),))
                    rows = cursor.fetchall()
                    found |= {(Destination(self.name, table), row_id): n for row_id, n in rows}
        except psycopg2.Error as e:
            raise self._failure(e) from None
        return found

    def trim(self, *, syslog: bool = False) -> None:
        """Remove rows older than a day; with `syslog` also its messages, by their index.

        Raises `InfrastructureError`; without the right the rows stay.
        """
        for table, statement in _TRIM.items():
            if table == SYSLOG and not syslog:
                continue
            try:
                with self._connection.used() as conn, conn, conn.cursor() as cursor:
                    if has_table(conn, table):
                        cursor.execute(statement)
            except errors.InsufficientPrivilege:
                log.warning(
                    "old rows of tracers stay: the role may not delete them",
                    extra={"database": self.name, "table": table, "fix": f"GRANT DELETE ON {table}"},
                )
            except psycopg2.Error as e:
                raise self._failure(e) from None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _failure(self, error: psycopg2.Error) -> InfrastructureError:
        return InfrastructureError(DATABASE_UNAVAILABLE, failure(f"database {self.name}", error))
