"""Audits that operators have started, one at a time, and their reports."""

from datetime import datetime
from typing import Any, Final, NamedTuple, Self

import orjson
import psycopg2
from psycopg2.extensions import connection

from services.admin.store.control_sql import connect, translated
from shared.errors import IDEMPOTENCY_KEY_REUSED, UserError

_COLUMNS: Final = "id, actor, reason, deep, state, started_at, finished_at, done, total, error"
_RUNNING: Final = "state IN ('running', 'cancelling')"
_ADD: Final = """
    INSERT INTO onramp_admin.audits (actor, reason, deep, key) VALUES (%s, %s, %s, %s)
    ON CONFLICT DO NOTHING RETURNING id
"""
_BY_KEY: Final = "SELECT id, reason, deep FROM onramp_admin.audits WHERE actor = %s AND key = %s"
_FORGET_KEYS: Final = """
    UPDATE onramp_admin.audits SET key = NULL
    WHERE key IS NOT NULL AND started_at < now() - interval '24 hours'
"""
_CANCEL: Final = "UPDATE onramp_admin.audits SET state = 'cancelling' WHERE id = %s AND state = 'running'"
_LIST: Final = f"""
    SELECT {_COLUMNS}, NULL FROM onramp_admin.audits ORDER BY id DESC LIMIT %s
"""  # noqa: S608 - our own words
_ONE: Final = f"SELECT {_COLUMNS}, report::text FROM onramp_admin.audits WHERE id = %s"  # noqa: S608
_NEXT: Final = f"SELECT {_COLUMNS}, NULL FROM onramp_admin.audits WHERE {_RUNNING}"  # noqa: S608
_PROGRESS: Final = "UPDATE onramp_admin.audits SET done = %s, total = %s WHERE id = %s RETURNING state"
#: The last partitions are read after the last progress.
_END: Final = """
    UPDATE onramp_admin.audits SET state = %(state)s, report = %(report)s, error = %(error)s,
        finished_at = now(), done = CASE %(state)s WHEN 'done' THEN coalesce(total, done) ELSE done END
    WHERE id = %(id)s
"""
_LOCK: Final = "SELECT pg_try_advisory_lock(7203155021)"


class Audit(NamedTuple):
    """An audit; `report`: JSON, only of a single one that is done."""

    id: int
    actor: str
    reason: str
    deep: bool | None
    state: str
    started_at: datetime
    finished_at: datetime | None
    done: int
    total: int | None
    error: str | None
    report: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        finished = self.finished_at and self.finished_at.isoformat()
        times = {"started_at": self.started_at.isoformat(), "finished_at": finished}
        return self._asdict() | times | {"report": self.report and orjson.loads(self.report)}


def started_by(conn: connection, actor: str, key: str, reason: str, *, deep: bool | None) -> int | None:
    """Return the audit that the actor's request with this key started within 24 hours.

    Raises `UserError` IDEMPOTENCY_KEY_REUSED if that request differed.
    """
    with conn.cursor() as cur:
        cur.execute(_FORGET_KEYS)
        cur.execute(_BY_KEY, (actor, key))
        found = cur.fetchone()
    if found is None:
        return None
    if found[1:] != (reason, deep):
        raise UserError(IDEMPOTENCY_KEY_REUSED, f"the key started audit {found[0]} by another request")
    return int(found[0])


def start(conn: connection, actor: str, reason: str, *, deep: bool | None, key: str | None) -> int | None:
    """Start an audit; return None while another one runs."""
    with conn.cursor() as cur:
        cur.execute(_ADD, (actor, reason, deep, key))
        added = cur.fetchone()
        return None if added is None else int(added[0])


def cancel(conn: connection, number: int) -> bool:
    """Request the end of a running audit; return False if it does not run."""
    with conn.cursor() as cur:
        cur.execute(_CANCEL, (number,))
        return bool(cur.rowcount)


def audits(conn: connection, most: int) -> list[Audit]:
    """Return the last audits without their reports, the newest first."""
    with conn.cursor() as cur:
        cur.execute(_LIST, (most,))
        return [Audit(*row) for row in cur.fetchall()]


def audit(conn: connection, number: int) -> Audit | None:
    """Return one audit with its report."""
    with conn.cursor() as cur:
        cur.execute(_ONE, (number,))
        found = cur.fetchone()
        return None if found is None else Audit(*found)


class AuditSession:
    """The connection of the process that runs audits: one of all replicas, until it ends."""

    def __init__(self, conn: connection) -> None:
        self._conn = conn

    @classmethod
    def open(cls, dsn: str) -> Self | None:
        """Return a session, or None while another replica has it.  Raises `InfrastructureError`."""
        conn = connect(dsn)
        with translated():
            conn.autocommit = True
            with conn.cursor() as cur:
                cur.execute(_LOCK)
                if cur.fetchone() == (True,):
                    return cls(conn)
        conn.close()
        return None

    def next(self) -> Audit | None:
        """Return the audit that is to run, also one that a killed process has left."""
        with translated(), self._conn.cursor() as cur:
            cur.execute(_NEXT)
            found = cur.fetchone()
            return None if found is None else Audit(*found)

    def progress(self, number: int, done: int, total: int | None) -> bool:
        """Store the progress; return whether the audit should continue."""
        with translated(), self._conn.cursor() as cur:
            cur.execute(_PROGRESS, (done, total, number))
            return cur.fetchone() == ("running",)

    def end(self, number: int, state: str, report: str | None = None, error: str | None = None) -> None:
        """Store how the audit has ended."""
        with translated(), self._conn.cursor() as cur:
            cur.execute(_END, {"state": state, "report": report, "error": error, "id": number})

    def close(self) -> None:
        """Close the connection, which another replica may wait for."""
        try:
            self._conn.close()
        except psycopg2.Error:  # it is closed
            return
