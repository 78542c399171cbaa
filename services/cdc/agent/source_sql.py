"""Asks a source what its tables and its slot are, and drops the slot.

Owns psycopg2 for sources. One connection, which is opened again after an error, and on which nobody waits for
a source that is silent. The source's password is in its DSN alone, and no message of the driver that could
repeat it is passed on.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final, NamedTuple

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection, parse_dsn

from services.cdc.agent import names
from services.cdc.agent.source_state import Column, SourceState, Table, left_out
from services.cdc.change_detection.indicator_sql import INDICATOR
from services.cdc.change_detection.table_fingerprint import RowsStamp
from services.cdc.change_detection.tables_sql import TABLES
from services.cdc.health.refusals import Refusals
from services.cdc.health.slot import Slot
from shared.errors import InfrastructureError
from shared.postgres.answering import KeptConnection
from shared.postgres.connect import connect
from shared.postgres.failures import NO_SUCH_DATABASE, failure
from shared.registry.sources import Source

_STATEMENT_MS: Final = 10_000
#: So often the tables are compared though the indicator is the same: a right to see rows is not in it.
_COMPARED_SECONDS: Final = 300.0
_OPTIONS: Final = (
    f"-c search_path=pg_catalog,pg_temp -c statement_timeout={_STATEMENT_MS} -c lock_timeout=2000 "
    # A table of which the role sees some rows alone is no empty one: it is an error then.
    "-c row_security=off "
    # A query that is compiled, or has workers, costs more each second than it saves.
    "-c jit=off -c max_parallel_workers_per_gather=0"
)
#: Without a status it is just being made, and has no WAL yet.
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


#: By attempt: what came of a connection to an address that was found.
_ANSWER: Final = re.compile(r"^connection to server (?:at|on) .*? failed: (.*)", re.MULTILINE)


class SourceError(Exception):
    """The source cannot be asked; the text says why, without its DSN."""


class _Known(NamedTuple):
    """The tables at a look, what was left out of them, and the indicator of the catalogue then."""

    indicator: str
    tables: tuple[Table, ...]
    left_out: Mapping[str, str]
    read_at: float


class SourceDatabase:
    """The database of one source.  Every method raises `SourceError`."""

    def __init__(self, name: str, source: Source, dsn: str) -> None:
        self._name = name
        self._source = source
        self._dsn = dsn
        self._logins = Refusals(_is_refusal)
        self._known: _Known | None = None
        self._kept = KeptConnection(f"the source {name}", dsn, self._open)

    @property
    def parameters(self) -> Mapping[str, str]:
        """Return libpq's parameters of the DSN by name."""
        with translated(self._source.dsn_env):
            return {key: str(value) for key, value in parse_dsn(self._dsn).items()}

    def inspect(self) -> SourceState:
        """Return what there is now."""
        with self._asking() as cursor:
            # First: what the tables are told by is at least as old as this.
            cursor.execute("SELECT pg_current_wal_lsn()::text")
            (lsn,) = cursor.fetchone()
            cursor.execute(_SLOT, (names.slot(self._name),))
            slot = cursor.fetchone()
            asked = {"schemas": list(self._source.schemas), "publication": names.publication(self._name)}
            known = self._known = self._compared(cursor, asked)
            # Last: whatever has changed these tables has ended before it, flushed or not.
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
                left_out=known.left_out,
            )

    def _compared(self, cursor: Any, asked: Mapping[str, Any]) -> "_Known":
        """Return the tables: those of the look before while the indicator is the same."""
        # First: what changes between the two queries is compared at the next look.
        cursor.execute(INDICATOR, asked)
        (indicator,) = cursor.fetchone()
        known = self._known
        if known and known.indicator == indicator and monotonic() < known.read_at + _COMPARED_SECONDS:
            return known
        cursor.execute(TABLES, asked)
        tables = tuple(_table(row) for row in cursor.fetchall())
        taken = tuple(t for t in tables if self._source.takes(t.schema, t.name))
        return _Known(indicator, taken, left_out(tables, self._source), monotonic())

    def slot(self) -> Slot | None:
        """Return the slot as it is now; None when there is none."""
        with self._asking() as cursor:
            cursor.execute(_SLOT, (names.slot(self._name),))
            slot = cursor.fetchone()
            return None if slot is None else _slot(slot)

    def has_rows(self, oid: int) -> bool:
        """Whether a table has a row.  Of one that is gone it cannot be said: that is a `SourceError`."""
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
        """Commit a message in the log: where nobody writes a connector that starts waits for a commit."""
        with self._asking() as cursor:
            cursor.execute(_COMMIT)

    def drop_slot(self) -> bool:
        """End whoever reads the slot and drop it; whether it is gone: a reader takes a moment to end."""
        slot = (names.slot(self._name),)
        with self._asking() as cursor:
            cursor.execute(_RELEASE, slot)
        with self._asking() as cursor:
            cursor.execute(_DROP, slot)
            cursor.execute(_SLOT, slot)
            return cursor.fetchone() is None

    def close(self) -> None:
        """Close the connection, and forget the tables: the next one may be to another server."""
        self._kept.close()
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
                with self._kept.used() as conn, conn, conn.cursor() as cursor:
                    yield cursor
            except psycopg2.Error:
                self.close()
                raise


def _lacking(wal_level: str, may_replicate: bool, closed: Iterable[str]) -> Iterator[str]:
    """Yield what must be prepared before the source can be captured."""
    if wal_level != "logical":
        yield f"wal_level is {wal_level} and must be logical"
    if not may_replicate:
        yield "the role may not replicate"
    yield from (f"the schema {schema} is not there, or closed to the role" for schema in closed)


def _connect(dsn: str) -> connection:
    return connect(dsn, name="onramp-agent", options=_OPTIONS)


@contextmanager
def translated(dsn_env: str) -> Iterator[None]:
    """Raise the driver's errors as `SourceError`, with the server's answer and nothing of the DSN."""
    try:
        yield
    except InfrastructureError as error:
        raise SourceError(error.detail) from None
    except psycopg2.Error as error:
        if error.pgcode == NO_SUCH_DATABASE:
            raise SourceError(failure("the source", error)) from None
        why = f"SQLSTATE {error.pgcode}: {error.diag.message_primary}" if error.pgcode else _answer(error)
        if isinstance(error, psycopg2.ProgrammingError) and not error.pgcode:
            why = "its DSN is wrong"
        if "authentication failed" in str(error):
            refused = f"it refuses the role or the password in {dsn_env}, which the agent has to be given"
            why = f"{refused}: {why}"
        raise SourceError(f"the source cannot be asked: {why}") from None


def _answer(error: psycopg2.Error) -> str:
    """Return libpq's text of what a server answered.

    Other texts of libpq may repeat parts of a wrong DSN, its password among them.
    """
    return "; ".join(" ".join(said.split()) for said in _ANSWER.findall(str(error))) or "no connection"


def _is_refusal(error: Exception) -> bool:
    """Whether a server has refused the login; one that starts or stops has not."""
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
