"""Moves bytes out of the control database, and deletes expired ones: one packer at a time.

A segment is written whole under a unique name, and then one transaction records it and removes the bytes
from the database.  A kill in between leaves a file without a row, which the next packer removes.  The lock
belongs to the recording connection, so a packer that lost the lock never records a file.
"""

import logging
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from psycopg2.extensions import connection

from services.admin.segments import segment
from services.admin.segments.folder import Segments
from services.admin.segments.segment import Row, Written
from services.admin.store import retention_sql
from services.admin.store.control_sql import connect, prepare, translated
from shared import failpoints
from shared.errors import SEGMENT_DAMAGED, InfrastructureError, OnrampError, UserError

log = logging.getLogger(__name__)

#: Bytes are packed at this total size, or when the oldest has waited this long.
SEGMENT_BYTES: Final = 64 * 2**20
SEGMENT_HOURS: Final = 1
_MAX_EVENTS: Final = 1_000_000
#: Maximum bytes of one fetch, if all rows were as large as the largest.
_FETCHED_BYTES: Final = 8 * 2**20
_FETCHED_ROWS: Final = 2_000
_STATEMENT_MS: Final = 300_000
#: The packer's advisory lock; any number without another use.
_LOCK: Final = 7_203_155_016
_DUE: Final = f"""
    SELECT min(event), max(event), count(*), coalesce(sum(size), 0), coalesce(max(size), 0),
           coalesce(bool_or(stored_at < now() - interval '{SEGMENT_HOURS} hours'), false)
    FROM (
        SELECT event, stored_at, octet_length(value) AS size,
               sum(octet_length(value)) OVER (ORDER BY event) AS upto
        FROM (SELECT * FROM onramp_admin.bytes ORDER BY event LIMIT {_MAX_EVENTS}) b
    ) w WHERE upto - size < %s
"""  # noqa: S608 - our own numbers
_ROWS: Final = """
    SELECT e.group_id, b.event, b.value FROM onramp_admin.bytes b JOIN onramp_admin.parked e ON e.id = b.event
    WHERE b.event BETWEEN %s AND %s ORDER BY 1, 2
"""
_ADD: Final = """
    INSERT INTO onramp_admin.segments (first_event, last_event, name, events, size)
    VALUES (%s, %s, %s, %s, %s)
"""
_ADD_PARTS: Final = """
    INSERT INTO onramp_admin.parts (segment, destination, event_name, step, code, hour, events)
    SELECT %(first)s, e.destination, e.event_name, g.step, e.code, date_trunc('hour', e.parked_at), count(*)
    FROM onramp_admin.events e JOIN onramp_admin.groups g ON g.id = e.group_id
    WHERE e.id BETWEEN %(first)s AND %(last)s AND e.sha256 IS NOT NULL AND NOT e.gone
    GROUP BY 2, 3, 4, 5, 6
"""
_LEAVE: Final = "DELETE FROM onramp_admin.bytes WHERE event BETWEEN %s AND %s"


class Segment(NamedTuple):
    """A segment: its range of event ids, its file, and its numbers of events and of expired ones."""

    first: int
    last: int
    name: str
    events: int
    over: int


class _Due(NamedTuple):
    """The content of the next segment."""

    first: int | None
    last: int
    events: int
    size: int
    largest: int
    is_old: bool


@dataclass(slots=True)
class PackerSession:
    """The packer's connection.  Close it after a method has raised `InfrastructureError`."""

    conn: connection
    segments: Segments
    folder: str

    @classmethod
    def open(cls, dsn: str, segments: Segments) -> Self | None:
        """Take the packer's lock and remove unrecorded files; return None while another process has it."""
        conn = connect(dsn, statement_ms=_STATEMENT_MS)
        try:
            with translated(), conn:
                prepare(conn)
            with translated(), conn, conn.cursor() as cur:
                cur.execute(
                    "SELECT pg_try_advisory_lock(%s), (SELECT folder::text FROM onramp_admin.installation)",
                    (_LOCK,),
                )
                ((is_ours, folder),) = cur.fetchall()
            if is_ours:
                session = cls(conn, segments, folder)
                session.sweep()
                return session
        except BaseException:
            conn.close()
            raise
        conn.close()
        return None

    def close(self) -> None:
        """Close the connection, which releases the lock."""
        self.conn.close()

    def sweep(self) -> int:
        """Remove files without a row; return how many.  Their writer cannot record them any more.

        Such a file is of another packer, or of an abandoned call that ended later.
        """
        with translated(), self.conn, self.conn.cursor() as cur:
            cur.execute("SELECT name FROM onramp_admin.segments")
            known = {name for (name,) in cur.fetchall()}
        unused = [name for name in self.segments.names(self.folder) if name not in known]
        return sum(self._remove(name) for name in unused)

    def pack(self) -> int:
        """Pack the next segment if it is due; return its number of events."""
        with translated(), self.conn, self.conn.cursor() as cur:
            cur.execute(_DUE, (SEGMENT_BYTES,))
            due = _Due(*cur.fetchall()[0])
            if due.first is None or not (due.is_old or due.size >= SEGMENT_BYTES):
                return 0
            name = self._name(due.first, due.last)
            written = segment.write(self.segments, name, self._rows(due))
            failpoints.reach("admin.segment_written")
            cur.execute(_ADD, (due.first, due.last, name, written.events, due.size))
            cur.execute(_ADD_PARTS, {"first": due.first, "last": due.last})
            cur.execute(_LEAVE, (due.first, due.last))
            _require(cur.rowcount, written)
        failpoints.reach("admin.segment_recorded")
        return written.events

    def expire(self) -> list[OnrampError]:
        """Delete the bytes of expired events; return the errors of segments that were not rewritten.

        A segment is deleted when all of its events have expired, and rewritten when half of them have.  An
        upload is deleted when all of its events have expired.  Unrecorded files are removed first.
        """
        self.sweep()
        with translated(), self.conn, self.conn.cursor() as cur:
            cur.execute(retention_sql.DELETE_UPLOADS)
            cur.execute(retention_sql.COUNT_EXPIRED)
            found = [Segment(*row) for row in cur.fetchall()]
        failed: list[OnrampError] = []
        for each in found:
            if each.over == each.events:
                self._delete(each)
            elif each.over * 2 >= each.events:
                try:
                    self._rewrite(each)
                except UserError as e:
                    failed.append(e)
        return failed

    def _delete(self, old: Segment) -> None:
        with translated(), self.conn, self.conn.cursor() as cur:
            cur.execute(retention_sql.MARK_GONE, (old.first, old.last))
            if cur.rowcount != old.events:
                self.conn.rollback()  # one of them was reopened meanwhile
                return
            cur.execute("DELETE FROM onramp_admin.segments WHERE first_event = %s", (old.first,))
            failpoints.reach("admin.segment_dropped")
        self._remove(old.name)

    def _rewrite(self, old: Segment) -> None:
        name = self._name(old.first, old.last)
        with translated(), self.conn, self.conn.cursor() as cur:
            cur.execute(retention_sql.MARK_GONE, (old.first, old.last))
            gone = {event for (event,) in cur.fetchall()}
            rows = (row for row in segment.read_all(self.segments, old.name) if row.event not in gone)
            written = segment.write(self.segments, name, rows)
            _require(old.events - len(gone), written)
            cur.execute(
                "UPDATE onramp_admin.segments SET name = %s, events = %s WHERE first_event = %s",
                (name, written.events, old.first),
            )
            cur.execute("DELETE FROM onramp_admin.parts WHERE segment = %s", (old.first,))
            cur.execute(_ADD_PARTS, {"first": old.first, "last": old.last})
            failpoints.reach("admin.segment_dropped")
        self._remove(old.name)

    def _remove(self, name: str) -> bool:
        """Remove a file without a row, if permitted: a folder without the right to delete is usable."""
        try:
            self.segments.remove(name)
        except InfrastructureError as e:
            log.error(  # noqa: TRY400 - it is said what is wrong
                "cannot remove an unrecorded file; retrying: check the rights on the store",
                extra={"file": name, "reason": e.detail},
            )
            return False
        return True

    def _name(self, first: int, last: int) -> str:
        """Return a unique name: by the range of ids, and a random part."""
        return f"{self.folder}/{first:019d}-{last:019d}-{secrets.token_hex(4)}.parquet"

    def _rows(self, due: _Due) -> Iterator[Row]:
        with self.conn.cursor("packed") as cur:
            cur.itersize = max(1, min(_FETCHED_ROWS, _FETCHED_BYTES // max(due.largest, 1)))
            cur.execute(_ROWS, (due.first, due.last))
            for group, event, value in cur:
                yield Row(group, event, bytes(value))


def _require(events: int, written: Written) -> None:
    """Raise unless the segment has as many events as leave the database."""
    if events != written.events:
        raise UserError(
            SEGMENT_DAMAGED, f"a new segment has {written.events} events, and should have {events}"
        )
