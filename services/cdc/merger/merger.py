"""The merger of one database: polls landing, and merges the tables with new changes, several at a time.

A transaction that lands changes sends NOTIFY. The merger also polls each second, because notifications are
not stored.  A table that fails is suspended with its reason and retried later; the others continue.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final

import psycopg2
from psycopg2.extensions import connection

from services.cdc.merge import history_sql, state_sql
from services.cdc.merge.history_sql import SourceTable, TableName
from services.cdc.merge.public_table import public_table
from services.cdc.merge.replacement_sql import EndSearch
from services.cdc.merge.state_sql import Feed, TableSettings
from services.cdc.merge.suspended import SuspendedError
from services.cdc.merge.table_merge import Merge
from services.cdc.merger import trim_sql
from services.cdc.merger.published import Published
from services.cdc.merger.settings import MergerSettings
from services.cdc.schema.migrations import migrate
from shared import change_table
from shared.errors import InfrastructureError
from shared.postgres.answering import PersistentConnection, is_readable
from shared.postgres.connect import connect
from shared.postgres.failures import NO_SUCH_DATABASE, failure

log = logging.getLogger(__name__)

#: Names are pinned, and a lost session is detected. A merge sorts and hashes its stage in memory; it is over
#: before JIT compilation would have paid off.
_OPTIONS: Final = (
    "-c search_path=pg_catalog,pg_temp -c timezone=UTC -c idle_in_transaction_session_timeout=60s "
    "-c work_mem=32MB -c jit=off"
)
_NOT_UP_TO_DATE: Final = (psycopg2.errors.UndefinedTable, psycopg2.errors.UndefinedColumn)
_UNFORESEEN: Final = (
    "it cannot be merged: unexpected error ({}); see the merger's log. This is a fault "
    "of Onramp's, please report it"
)
#: Seconds between two checks whether a merge has ended.
_TICK: Final = 0.005
#: Landing can wait behind a lock, and so can a merge: the table is retried.
_PASSES: Final = (psycopg2.errors.LockNotAvailable, psycopg2.errors.DeadlockDetected)


class Merger:
    """Merges the tables that are published to one database, until it is stopped."""

    def __init__(
        self, name: str, dsn: str, published: Callable[[], Published], settings: MergerSettings
    ) -> None:
        """`published`: returns the registry's entries now; `name`: the database's public name."""
        self._name = name
        self._dsn = dsn
        self._published = published
        self._settings = settings
        self._stop = threading.Event()
        self._is_migrated = False
        self._history: tuple[Any, dict[TableName, SourceTable]] = (None, {})
        self._added: set[TableName] = set()
        self._merging: dict[TableName, Future[bool]] = {}
        self._following = self._persistent(self._listening)
        self._idle: list[PersistentConnection] = []
        self._retry_at: dict[TableName, float] = {}
        #: The position of the table and its landing at the start of the last merge, to detect new changes.
        self._began_at: dict[TableName, tuple[int, list[Feed]]] = {}
        self._searches: dict[TableName, EndSearch] = {}
        self._trim_at = 0.0

    def stop(self) -> None:
        """Stop after the merges in progress."""
        self._stop.set()

    def run(self) -> None:
        """Poll and merge until stopped; an unreachable database is retried."""
        with ThreadPoolExecutor(self._settings.max_parallel_tables, f"merge-{self._name}") as pool:
            while not self._stop.is_set():
                try:
                    with self._following.used() as conn:
                        self._reconcile(conn, pool)
                    self._wait(conn)
                except (psycopg2.Error, InfrastructureError) as e:
                    self._following.close()
                    log.warning(
                        "the database does not answer", extra={"database": self._name, "reason": _reason(e)}
                    )
                    self._stop.wait(self._settings.poll_seconds)
        for idle_connection in (self._following, *self._idle):
            idle_connection.close()

    def _persistent(self, open_: Callable[[], connection]) -> PersistentConnection:
        """Return a connection with timeouts, so that a frozen database blocks no thread."""
        return PersistentConnection(f"database {self._name}", self._dsn, open_)

    def _connect(self) -> connection:
        return connect(self._dsn, name="onramp-merger", options=_OPTIONS)

    def _listening(self) -> connection:
        conn = self._connect()
        conn.autocommit = True
        with conn.cursor() as cursor:
            cursor.execute(f"LISTEN {change_table.CHANNEL}")
        return conn

    def _wait(self, conn: connection) -> None:
        """Wait until changes have landed or a merge has ended, at most until the next poll."""
        deadline = time.monotonic() + self._settings.poll_seconds
        merging = bool(self._merging)
        while not self._stop.is_set() and (left := deadline - time.monotonic()) > 0:
            if merging and any(future.done() for future in self._merging.values()):
                return
            if is_readable(conn.fileno(), min(left, _TICK) if merging else left):
                conn.poll()
                if conn.notifies:
                    conn.notifies.clear()
                    return

    def _reconcile(self, conn: connection, pool: ThreadPoolExecutor) -> None:
        self._merging = {n: f for n, f in self._merging.items() if not self._is_merged(n, f)}
        published = self._published()
        if not published.sources:
            return
        try:
            self._migrate()
            tables = self._tables(conn, published)
            all_settings, feeds = state_sql.read_table_settings(conn), state_sql.feeds(conn)
        except _NOT_UP_TO_DATE:
            self._is_migrated = False
            log.info("waiting for the writer to create its tables", extra={"database": self._name})
            return
        for name, table in tables.items():
            if name in self._merging:
                continue
            fed = feeds.get(change_table.name_of(*name), [])
            if (table_settings := all_settings.get(name)) and self._is_due(name, table_settings, fed):
                self._began_at[name] = table_settings.next_offset, fed
                self._merging[name] = pool.submit(self._merge, table, table_settings, fed, published)
        if time.monotonic() >= self._trim_at:
            self._trim_at = time.monotonic() + self._settings.trim_seconds
            pool.submit(self._trim, [*tables], published.keeps_landing())

    def _migrate(self) -> None:
        """Create the tables of change data capture, unless the agent has."""
        if not self._is_migrated:
            with closing(self._persistent(self._connect)) as idle_connection, idle_connection.used() as conn:
                migrate(conn, self._name)
            self._is_migrated = True

    def _tables(self, conn: connection, published: Published) -> dict[TableName, SourceTable]:
        version = history_sql.version(conn)
        if version != self._history[0]:
            self._history = version, history_sql.tables(conn)
            self._added.clear()
            self._retry_at.clear()
        tables = {name: table for name, table in self._history[1].items() if published.takes(name)}
        # The history can be ahead of this registry's state: a source's tables may come without the source.
        if new := tables.keys() - self._added:
            state_sql.add(conn, new)
            self._added |= new
        return tables

    def _is_due(self, name: TableName, table_settings: TableSettings, fed: list[Feed]) -> bool:
        """Return whether a table has new changes, without a query for a table that has none."""
        if name not in self._retry_at:
            return True
        is_news = self._began_at[name] != (table_settings.next_offset, fed)
        if time.monotonic() < self._retry_at[name] + (0.0 if is_news else self._settings.poll_seconds):
            return False  # changes that wait behind a lock are ahead as well
        ahead = any(
            f.next_offset > table_settings.next_offset or f.topic_id != table_settings.topic_id for f in fed
        )
        return ahead or table_settings.is_cleared or table_settings.reason is not None

    def _is_merged(self, name: TableName, future: "Future[bool]") -> bool:
        if not future.done():
            return False
        self._retry_at[name] = time.monotonic() + (0.0 if future.result() else self._settings.retry_seconds)
        return True

    def _merge(
        self, table: SourceTable, table_settings: TableSettings, fed: Sequence[Feed], published: Published
    ) -> bool:
        """Merge all new changes; return False if the table failed."""
        idle_connection = self._idle.pop() if self._idle else self._persistent(self._connect)
        try:
            with idle_connection.used() as conn:
                return self._merge_on(conn, table, table_settings, fed, published)
        except (psycopg2.Error, InfrastructureError):  # the next poll reports it
            return True
        except Exception:
            log.exception("cannot suspend a table", extra={"table": str(table.name)})
            return False
        finally:
            self._idle.append(idle_connection)

    def _merge_on(
        self,
        conn: connection,
        table: SourceTable,
        table_settings: TableSettings,
        fed: Sequence[Feed],
        published: Published,
    ) -> bool:
        try:
            self._merge_all(conn, table, table_settings, fed, published)
        except SuspendedError as e:
            self._hold(conn, table.name, str(e))
            return False
        except _PASSES:
            log.info("a table is locked; retrying", extra={"table": str(table.name)})
        except psycopg2.Error as e:
            return self._is_database_out(table.name, e)
        except InfrastructureError:
            raise
        except Exception as e:
            log.exception("a table cannot be merged", extra={"table": str(table.name)})
            self._hold(conn, table.name, _UNFORESEEN.format(type(e).__name__))
            return False
        finally:
            if not conn.closed:
                conn.rollback()
        return True

    def _merge_all(
        self,
        conn: connection,
        table: SourceTable,
        table_settings: TableSettings,
        fed: Sequence[Feed],
        published: Published,
    ) -> None:
        published.require_own_name(table.name, self._history[1])
        feed = only_feed(table, table_settings, fed)
        cleaning = published.cleaning_of(table.name)
        merge = Merge(
            source=table,
            table=public_table(published.schema_of(table.name), table, cleaning),
            topic_id=feed and feed.topic_id,
            max_changes=self._settings.max_changes,
            search=self._searches.setdefault(table.name, EndSearch()),
        )
        while merge.run(conn) and not self._stop.is_set():
            pass

    def _hold(self, conn: connection, name: TableName, reason: str) -> None:
        conn.rollback()
        with conn:
            is_news = state_sql.hold(conn, name, reason)
        if is_news:
            log.error("suspended a table; others continue", extra={"table": str(name), "reason": reason})

    def _is_database_out(self, name: TableName, error: psycopg2.Error) -> bool:
        """Suspend the table if the database works otherwise; return True if the database is unreachable."""
        if error.pgcode is None:
            return True
        reason = (
            f"the database refuses the merge (SQLSTATE {error.pgcode}): see its log, and "
            "compare the table with its source"
        )
        try:
            with closing(self._persistent(self._connect)) as idle_connection, idle_connection.used() as conn:
                self._hold(conn, name, reason)
        except (psycopg2.Error, InfrastructureError):
            return True
        return False

    def _trim(self, names: Sequence[TableName], keeps: Mapping[str, int]) -> None:
        try:
            with closing(self._persistent(self._connect)) as idle_connection, idle_connection.used() as conn:
                for name in names:
                    trim_sql.trim_alone(conn, name, keeps[name.source])
                for source, seconds in keeps.items():
                    trim_sql.trim_transactions(conn, source, seconds)
        except (psycopg2.Error, InfrastructureError) as e:
            log.warning("landing is not trimmed", extra={"database": self._name, "reason": _reason(e)})


def _reason(error: psycopg2.Error | InfrastructureError) -> str:
    if isinstance(error, InfrastructureError):
        return error.detail
    if error.pgcode == NO_SUCH_DATABASE:
        return failure("the database", error)
    return error.pgcode or "the connection is lost or refused"


def only_feed(table: SourceTable, table_settings: TableSettings, fed: Sequence[Feed]) -> Feed | None:
    """Return the one topic that feeds the table.  Raises `SuspendedError` where that is not certain."""
    if not fed:
        return None
    if len(fed) > 1 or table_settings.topic_id not in (None, fed[0].topic_id):
        raise SuspendedError(
            "its changes come from more than one topic, or the topic was recreated, and offsets of two "
            f"topics do not compare: re-snapshot the source (onramp sources resync {table.name.source})"
        )
    if fed[0].parked > table_settings.parked_known:
        raise SuspendedError(
            f"{fed[0].parked - table_settings.parked_known} of its changes are parked and would be missing: "
            f"replay them (onramp errors), then onramp sources rebuild {table.name}"
        )
    return fed[0]
