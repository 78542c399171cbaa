"""Reads the tables and the slot of a source, and drops the slot.

Owns psycopg2 for sources. It has one connection, which is reopened after an error; a source that does not
answer blocks no other. The source's password is in its DSN only, and driver messages that could repeat it are
dropped.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import Any, Final, NamedTuple

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection, parse_dsn

from services.cdc.agent import names
from services.cdc.agent.source_state import Column, SourceState, Table, excluded_tables
from services.cdc.change_detection.indicator_sql import INDICATOR
from services.cdc.change_detection.table_fingerprint import RowsStamp
from services.cdc.change_detection.tables_sql import TABLES
from services.cdc.health.refusals import Refusals
from services.cdc.health.slot import Slot
from shared.postgres.answering import PersistentConnection
from shared.postgres.connect import connect
from shared.postgres.failures import raised_as
from shared.registry.sources import Source

_STATEMENT_MS: Final = 10_000
#: Seconds between two full comparisons while the indicator is unchanged: it does not cover row security.
_COMPARED_SECONDS: Final = 300.0
_OPTIONS: Final = (
    f"-c search_path=pg_catalog,pg_temp -c statement_timeout={_STATEMENT_MS} -c lock_timeout=2000 "
    # A table whose policies hide rows from the role is an error, not an empty table.
    "-c row_security=off "
    # JIT compilation and parallel workers cost more each second than they save.
    "-c jit=off -c max_parallel_workers_per_gather=0"
)
#: A slot without a status is being created, and has no WAL yet.
_SLOT: Final = """
    SELECT s.active, coalesce(s.wal_status, 'reserved'), coalesce(s.confirmed_flush_lsn, '0/0')::text,
           coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn), 0)::int8,
           s.active_pid, coalesce(a.application_name, ''), coalesce(a.backend_start::text, '')
    FROM pg_replication_slots s LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %s
"""
_PUBLICATION: Final = """
    SELECT p.pubviaroot AND p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate, p.puballtables,
           ARRAY(SELECT n.nspname::text FROM pg_publication_namespace pn
                 JOIN pg_namespace n ON n.oid = pn.pnnspid WHERE pn.pnpubid = p.oid)
    FROM pg_publication p WHERE p.pubname = %s
"""
_ROLE: Final = """
    SELECT current_setting('wal_level'),
           (SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user),
           ARRAY(SELECT s FROM unnest(%(schemas)s::text[]) s LEFT JOIN pg_namespace n ON n.nspname = s
                 WHERE n.oid IS NULL OR NOT has_schema_privilege(n.oid, 'USAGE')),
           EXISTS (SELECT unnest(%(schemas)s::text[]) EXCEPT SELECT nspname FROM pg_namespace)
"""
_MOMENT: Final = """
    SELECT pg_current_wal_insert_lsn()::text, pg_snapshot_xmin(pg_current_snapshot())::text::int8,
           pg_snapshot_xmax(pg_current_snapshot())::text::int8
"""
_COMMIT: Final = "SELECT pg_logical_emit_message(true, 'onramp', '')"
_RELEASE: Final = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s"
_DROP: Final = """
    SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s AND NOT active
"""


#: The result of a connection attempt, by resolved address.
_ANSWER: Final = re.compile(r"^connection to server (?:at|on) .*? failed: (.*)", re.MULTILINE)


class SourceError(Exception):
    """A request to the source failed; the text gives the reason, without its DSN."""


class _Known(NamedTuple):
    """The tables at a poll, the excluded ones, and the indicator of the catalogue then."""

    indicator: str
    tables: tuple[Table, ...]
    excluded_tables: Mapping[str, str]
    read_at: float


class SourceDatabase:
    """The database of one source.  Every method raises `SourceError`."""

    def __init__(self, name: str, source: Source, dsn: str) -> None:
        self._name = name
        self._source = source
        self._dsn = dsn
        self._logins = Refusals(_is_refusal)
        self._known: _Known | None = None
        self._connection = PersistentConnection(f"the source {name}", dsn, self._open)

    @property
    def parameters(self) -> Mapping[str, str]:
        """Return the DSN's libpq parameters by name."""
        with translated(self._source.dsn_env):
            return {key: str(value) for key, value in parse_dsn(self._dsn).items()}

    def inspect(self) -> SourceState:
        """Return the source's tables and slot as they are now."""
        with self._asking() as cursor:
            # Read first, so that the tables' identities are at least as old as this position.
            cursor.execute("SELECT pg_current_wal_lsn()::text")
            (lsn,) = cursor.fetchone()
            cursor.execute(_SLOT, (names.slot(self._name),))
            slot = cursor.fetchone()
            asked = {"schemas": list(self._source.schemas), "publication": names.publication(self._name)}
            known = self._known = self._compared(cursor, asked)
            # Read last: each transaction that changed these tables has ended before it, flushed or not.
            cursor.execute(_MOMENT)
            tables_lsn, ended, begun = cursor.fetchone()
            cursor.execute(_ROLE, asked)
            *role, lacks_schema = cursor.fetchone()
            return SourceState(
                lsn=lsn,
                tables_lsn=tables_lsn,
                ended=ended,
                begun=begun,
                tables=known.tables,
                slot=None if slot is None else _slot(slot),
                unprepared="; ".join((*_lacking(*role), *self._unpublished(cursor))),
                lacks_schema=lacks_schema,
                excluded_tables=known.excluded_tables,
            )

    def _compared(self, cursor: Any, asked: Mapping[str, Any]) -> "_Known":
        """Return the tables: those of the last poll while the indicator is unchanged."""
        # The indicator is read first: the next poll compares changes between the two queries.
        cursor.execute(INDICATOR, asked)
        (indicator,) = cursor.fetchone()
        known = self._known
        if known and known.indicator == indicator and monotonic() < known.read_at + _COMPARED_SECONDS:
            return known
        cursor.execute(TABLES, asked)
        tables = tuple(_table(row) for row in cursor.fetchall())
        taken = tuple(t for t in tables if self._source.takes(t.schema, t.name))
        return _Known(indicator, taken, excluded_tables(tables, self._source), monotonic())

    def slot(self) -> Slot | None:
        """Return the slot, or None when it does not exist."""
        with self._asking() as cursor:
            cursor.execute(_SLOT, (names.slot(self._name),))
            slot = cursor.fetchone()
            return None if slot is None else _slot(slot)

    def has_rows(self, oid: int) -> bool:
        """Return whether a table has a row.  Raises `SourceError` for a dropped table."""
        with self._asking() as cursor:
            cursor.execute(
                "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                "WHERE c.oid = %s",
                (oid,),
            )
            name = cursor.fetchone()
            if name is None:
                raise SourceError(f"the table with oid {oid} is gone")
            cursor.execute(sql.SQL("SELECT EXISTS (SELECT FROM {} LIMIT 1)").format(sql.Identifier(*name)))
            return bool(cursor.fetchone()[0])

    def commit(self) -> None:
        """Commit a message in the log, which a starting connector needs in an idle source."""
        with self._asking() as cursor:
            cursor.execute(_COMMIT)

    def drop_slot(self) -> bool:
        """End the slot's reader and drop it; return whether it is dropped: a reader ends with a delay."""
        slot = (names.slot(self._name),)
        with self._asking() as cursor:
            cursor.execute(_RELEASE, slot)
        with self._asking() as cursor:
            cursor.execute(_DROP, slot)
            cursor.execute(_SLOT, slot)
            return cursor.fetchone() is None

    def close(self) -> None:
        """Close the connection, and forget the tables: the next one may be to another server."""
        self._connection.close()
        self._known = None

    def _unpublished(self, cursor: Any) -> Iterator[str]:
        """Yield what the publication lacks."""
        schemas = list(self._source.schemas)
        publication = names.publication(self._name)
        cursor.execute(_PUBLICATION, (publication,))
        found = cursor.fetchone()
        if found is None:
            yield f"there is no publication {publication}"
            return
        whole, is_of_all, published = found
        if is_of_all:
            yield f"the publication {publication} is FOR ALL TABLES: what Onramp writes there would come back"
        elif missing := sorted(set(schemas) - set(published)):
            yield f"the publication {publication} lacks the schemas {', '.join(missing)}"
        if not whole:
            yield (
                f"the publication {publication} must publish insert, update, delete and truncate, via the "
                "partitions' root"
            )

    def _open(self) -> connection:
        with self._logins.attempt(self._dsn):
            return _connect(self._dsn)

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        with translated(self._source.dsn_env):
            try:
                with self._connection.used() as conn, conn, conn.cursor() as cursor:
                    yield cursor
            except psycopg2.Error:
                self.close()
                raise


def _lacking(wal_level: str, may_replicate: bool, closed: Iterable[str]) -> Iterator[str]:
    """Yield the preparations that are missing before the source can be captured."""
    if wal_level != "logical":
        yield f"wal_level is {wal_level} and must be logical"
    if not may_replicate:
        yield "the role may not replicate"
    yield from (f"the schema {schema} is not there, or closed to the role" for schema in closed)


def _connect(dsn: str) -> connection:
    return connect(dsn, name="onramp-agent", options=_OPTIONS)


def translated(dsn_env: str) -> AbstractContextManager[None]:
    """Raise the driver's errors as `SourceError`, with the server's answer and nothing of the DSN."""

    def explain(error: psycopg2.Error) -> str:
        why = f"SQLSTATE {error.pgcode}: {error.diag.message_primary}" if error.pgcode else _answer(error)
        if isinstance(error, psycopg2.ProgrammingError) and not error.pgcode:
            why = "its DSN is wrong"
        if "authentication failed" in str(error):
            refused = f"it refuses the role or the password in {dsn_env}, which the agent has to be given"
            why = f"{refused}: {why}"
        return f"cannot query the source: {why}"

    return raised_as(SourceError, "the source", explain)


def _answer(error: psycopg2.Error) -> str:
    """Return libpq's text of a server's answer.

    Other texts of libpq may repeat parts of a wrong DSN, its password among them.
    """
    return "; ".join(" ".join(said.split()) for said in _ANSWER.findall(str(error))) or "no connection"


def _is_refusal(error: Exception) -> bool:
    """Return whether the server refused the login; a server that starts or stops has not refused it."""
    text = _answer(error) if isinstance(error, psycopg2.OperationalError) else ""
    return text.startswith("FATAL") and "the database system is" not in text


def _table(row: tuple[Any, ...]) -> Table:
    oid, schema, name, is_partition, key, columns, stamp, hidden = row
    return Table(
        oid=oid,
        schema=schema,
        name=name,
        columns=tuple(Column(*column) for column in columns),
        key=tuple(key) if key else None,
        is_partition=is_partition,
        rows_stamp=RowsStamp.of(stamp),
        hidden=hidden or "",
    )


def _slot(row: tuple[Any, ...]) -> Slot:
    active, wal_status, confirmed_lsn, retained_bytes, pid, program, since = row
    return Slot(
        active=active,
        wal_status=wal_status,
        retained_bytes=retained_bytes,
        confirmed_lsn=confirmed_lsn,
        pid=pid,
        program=program,
        since=since,
    )
