"""The agent's tables in the database that a source is published to: its state, and the tables' history.

Owns psycopg2 for those databases. The merger reads the history, `onramp.source_tables`; the agent alone uses
the tables in `onramp_agent`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import orjson
import psycopg2
from psycopg2.extensions import connection, cursor

from services.cdc.agent.source_state import Resnapshot, Shown, SourceState, StoredState, Table
from services.cdc.change_detection import resnapshots_sql
from services.cdc.change_detection.resnapshots_sql import RequestedSnapshot
from services.cdc.change_detection.snapshot_marker import Marker
from services.cdc.change_detection.table_fingerprint import RowsStamp
from services.cdc.change_detection.topic_generation_sql import End
from services.cdc.health.out_of_sync import Gap
from services.cdc.health.slot import Reader, Readers, lsn_number, lsn_text
from services.cdc.schema.migrations import migrate
from shared.postgres.answering import PersistentConnection, answering
from shared.postgres.connect import connect as opened
from shared.postgres.failures import raised_as

_OPTIONS: Final = "-c search_path=pg_catalog,pg_temp -c statement_timeout=10000 -c lock_timeout=5000"
#: The database's name in messages, which never have its DSN.
_NAME: Final = "the database that it is published to"
_NO_TABLE: Final = "42P01"
_STATE: Final = """
    SELECT out_of_sync_lsn::text, out_of_sync_at, out_of_sync_why, resync_requested_at, tables, resnapshots,
           slot_reader, own_lsn::text, streams, coalesce(confirmed_lsn > '0/0', false)
    FROM onramp_agent.sources WHERE source = %s
"""
#: The lock belongs to the session and ends with it.
_WATCH: Final = "SELECT pg_try_advisory_lock(hashtextextended('onramp_agent ' || %s, 0))"
_ADD: Final = """
    INSERT INTO onramp_agent.sources (source, dsn_env, state) VALUES (%s, %s, 'starting')
    ON CONFLICT (source) DO UPDATE SET dsn_env = excluded.dsn_env WHERE sources.dsn_env <> excluded.dsn_env
"""
_SHOW: Final = """
    UPDATE onramp_agent.sources SET state = %s, reason = %s, slot_active = %s, wal_status = %s,
        retained_bytes = %s, heartbeat_age_s = %s, excluded_tables = %s, polled_at = clock_timestamp(),
        confirmed_lsn = coalesce(%s, confirmed_lsn), slot_reader = %s, own_lsn = %s
    WHERE source = %s
"""
_MARK: Final = """
    UPDATE onramp_agent.sources SET out_of_sync_lsn = %s, out_of_sync_at = clock_timestamp(),
        out_of_sync_why = %s, resync_requested_at = CASE WHEN %s THEN clock_timestamp() END
    WHERE source = %s AND out_of_sync_at IS NULL
"""
_HEAL: Final = """
    UPDATE onramp_agent.sources SET out_of_sync_lsn = NULL, out_of_sync_at = NULL, out_of_sync_why = NULL,
        resync_requested_at = NULL, resnapshots = '{}', confirmed_lsn = NULL, slot_reader = NULL,
        own_lsn = NULL, streams = false
    WHERE source = %s
"""
#: For each table: whether it is suspended, and the offset of its next merge if more has landed.  A table that
#: waits for the rest of a snapshot is not behind.
_MERGED: Final = """
    SELECT m.landing, m.reason IS NOT NULL, m.next_offset, NOT m.awaits_snapshot AND EXISTS (
        SELECT FROM onramp.totals t JOIN onramp.ledger l USING (topic_id, partition)
        WHERE t.destination = 'landing.' || m.landing AND t.topic_id <> ALL (m.past_topics)
          AND l.next_offset > m.next_offset)
    FROM onramp.table_settings m WHERE m.source = %s
"""
_LATEST: Final = """
    SELECT DISTINCT ON (schema_name, table_name) schema_name, table_name, columns, key, dropped
    FROM onramp.source_tables WHERE source = %s ORDER BY schema_name, table_name, observed_at DESC
"""
_RECORD: Final = """
    INSERT INTO onramp.source_tables
        (source, schema_name, table_name, observed_at, lsn, columns, key, dropped)
    VALUES (%s, %s, %s, clock_timestamp(), %s, %s, %s, %s)
"""


class StateStoreError(Exception):
    """A request to the published database failed; the text gives the reason, without its DSN."""


class StateStore:
    """The database that a source is published to.  Every method raises `StateStoreError`."""

    def __init__(self, source: str, dsn_env: str, dsn: str) -> None:
        self._source = source
        self._dsn_env = dsn_env
        self._connection = PersistentConnection(_NAME, dsn, partial(prepared, dsn))

    def watch(self) -> bool:
        """Return whether this agent watches the source: one agent at a time does, until its session ends."""
        with self._transaction() as cursor:
            cursor.execute(_WATCH, (self._source,))
            return bool(cursor.fetchone()[0])

    def read(self) -> StoredState:
        """Return the stored state."""
        with self._transaction() as cursor:
            cursor.execute(_ADD, (self._source, self._dsn_env))
            cursor.execute(_STATE, (self._source,))
            lsn, at, why, wanted, tables, resnapshots, reader, own, streams, had_slot = cursor.fetchone()
            cursor.execute(_MERGED, (self._source,))
            models = cursor.fetchall()
        return StoredState(
            out_of_sync_lsn=lsn,
            out_of_sync_at=at,
            out_of_sync_why=why,
            resync_requested_at=wanted,
            tables=None if tables is None else {n: RowsStamp.of(t) for n, t in tables.items()},
            resnapshots={name: Resnapshot(**each) for name, each in resnapshots.items()},
            readers=Readers(last=Reader(reader or Reader.NOBODY), own=lsn_number(own or "0/0")),
            streams=streams,
            had_slot=had_slot,
            suspended=sum(is_suspended for _, is_suspended, _, _ in models),
            behind={t: at for t, is_suspended, at, is_behind in models if is_behind and not is_suspended},
        )

    def show(self, shown: Shown) -> None:
        """Store the source's status, also of a source that was never reached."""
        slot = shown.source_state.slot if shown.source_state else None
        values = (
            shown.state,
            shown.reason,
            slot and slot.active,
            slot and slot.wal_status,
            slot and slot.retained_bytes,
            shown.heartbeat_age_s,
            _json(shown.source_state.excluded_tables if shown.source_state else {}),
            slot and slot.confirmed_lsn,
            shown.readers.last,
            lsn_text(shown.readers.own),
            self._source,
        )
        with self._transaction() as cursor:
            cursor.execute(_SHOW, values)
            if not cursor.rowcount:
                cursor.execute(_ADD, (self._source, self._dsn_env))
                cursor.execute(_SHOW, values)

    def mark_out_of_sync(self, gap: Gap) -> None:
        """Store the start of the gap; the first mark remains until a resync."""
        with self._transaction() as cursor:
            cursor.execute(_MARK, (gap.lsn, gap.why, gap.starts_again, self._source))

    def heal(self, ends: Mapping[tuple[str, str], End]) -> None:
        """Clear the gap: everything is re-snapshotted from `ends`, the topics' ends by table.

        Public tables are emptied there, once their new rows have landed: a snapshot has no event for
        a table without rows.
        """
        with self._transaction() as cursor:
            resnapshots_sql.begin_again(cursor, self._source, ends)
            cursor.execute(_HEAL, (self._source,))

    def history(self) -> dict[tuple[str, str], tuple[Any, ...]]:
        """Return the latest entry of each table: columns, key, whether it was dropped."""
        with self._transaction() as cursor:
            cursor.execute(_LATEST, (self._source,))
            return {(row[0], row[1]): tuple(row[2:]) for row in cursor.fetchall()}

    def record(
        self, source_state: SourceState, changed: Sequence[Table], dropped: Sequence[tuple[str, str]]
    ) -> None:
        """Add catalogue changes to the history, with the time and the LSN."""
        with self._transaction() as cursor:
            # Dropped first: a table that was dropped and created again is in both lists.
            for schema, name in dropped:
                cursor.execute(_RECORD, (self._source, schema, name, source_state.lsn, "[]", None, True))
            for table in changed:
                columns = [column._asdict() for column in table.columns]
                key = list(table.key) if table.key else None
                entry = (self._source, table.schema, table.name, source_state.lsn, _json(columns), key, False)
                cursor.execute(_RECORD, entry)

    def save_tables(self, tables: Mapping[str, RowsStamp], resnapshots: Mapping[str, Resnapshot]) -> None:
        """Store the tables' fingerprints, and the tables to re-snapshot."""
        documents = {name: asdict(each) for name, each in resnapshots.items()}
        with self._transaction() as cursor:
            cursor.execute(
                "UPDATE onramp_agent.sources SET tables = %s, resnapshots = %s WHERE source = %s",
                (_json({n: t.document() for n, t in tables.items()}), _json(documents), self._source),
            )

    def save_streams(self, *, streams: bool, ends: Mapping[tuple[str, str], End]) -> None:
        """Store whether the source's first snapshot is over, and the `ends` of the topics then, by table."""
        with self._transaction() as cursor:
            cursor.execute(
                "UPDATE onramp_agent.sources SET streams = %s WHERE source = %s", (streams, self._source)
            )
            resnapshots_sql.note_snapshots_end(cursor, self._source, ends)

    def has_snapshots_end(self, table: tuple[str, str], start: int) -> tuple[bool, int]:
        """Return whether a snapshot's last row landed from `start` on, and the next offset to search."""
        with self._transaction() as cursor:
            return resnapshots_sql.has_end(cursor, (self._source, *table), start)

    def save_requests(self, requests: Sequence[RequestedSnapshot]) -> None:
        """Store requests of snapshots that emit a marker."""
        with self._transaction() as cursor:
            resnapshots_sql.insert_requests(cursor, self._source, requests)

    def save_markers(self, markers: Sequence[Marker]) -> None:
        """Store the markers of snapshots."""
        with self._transaction() as cursor:
            resnapshots_sql.save_markers(cursor, self._source, markers)

    def had_rows(self, token: str) -> bool | None:
        """Return whether the snapshot of a token had rows; None until its marker is stored."""
        with self._transaction() as cursor:
            return resnapshots_sql.had_rows(cursor, self._source, token)

    def empty(self, table: tuple[str, str], start: int, token: str = "") -> bool:
        """Empty the public table at `start`, and rebuild it from the changes after it.

        With a token, changes that its snapshot includes are skipped.  Returns whether the changes are
        in landing.
        """
        with self._transaction() as cursor:
            return resnapshots_sql.empty(cursor, self._source, table, start, token)

    def forget(self) -> None:
        """Delete the stored state of a removed source; its history remains."""
        with self._transaction() as cursor:
            cursor.execute("DELETE FROM onramp_agent.sources WHERE source = %s", (self._source,))
            resnapshots_sql.forget(cursor, self._source)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with translated():
            try:
                with self._connection.used() as conn, conn, conn.cursor() as cursor:
                    yield cursor
            except psycopg2.Error:
                self.close()
                raise


@contextmanager
def asking(dsn: str) -> Iterator[cursor]:
    """Run the block as a transaction, without migrating the database.  Raises `StateStoreError`."""
    with translated(), answering(_NAME, dsn, partial(connect, dsn)) as conn, conn, conn.cursor() as cur:
        yield cur


def connect(dsn: str) -> connection:
    """Open a connection."""
    return opened(dsn, name="onramp-agent", options=_OPTIONS)


def prepared(dsn: str) -> connection:
    """Open a connection to a database whose agent schema is up to date."""
    conn = connect(dsn)
    try:
        migrate(conn, "that the source is published to")
    except BaseException:
        conn.close()
        raise
    return conn


def sources_in(dsn: str) -> dict[str, str]:
    """Return the sources stored in a database, with the variable of each DSN. Raises `StateStoreError`."""
    with translated(), answering(_NAME, dsn, partial(prepared, dsn)) as conn, conn, conn.cursor() as cursor:
        cursor.execute("SELECT source, dsn_env FROM onramp_agent.sources")
        return dict(cursor.fetchall())


def translated() -> AbstractContextManager[None]:
    """Raise the driver's errors as `StateStoreError`, without texts that could repeat a DSN."""
    return raised_as(StateStoreError, _NAME, _explain)


def _explain(error: psycopg2.Error) -> str:
    hint = ": start the writer, which creates its tables there" if error.pgcode == _NO_TABLE else ""
    code = f"SQLSTATE {error.pgcode}" if error.pgcode else "no connection"
    return f"{_NAME} cannot be used: {code}{hint}"


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
