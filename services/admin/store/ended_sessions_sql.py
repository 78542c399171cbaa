"""Sessions that were logged out: a copy of their cookie is no session any more."""

from typing import Final

from psycopg2.extensions import connection

_DROP_OLD: Final = "DELETE FROM onramp_admin.ended_sessions WHERE until < now()"
_ADD: Final = """
    INSERT INTO onramp_admin.ended_sessions (session, until) VALUES (%s, now() + %s * interval '1 second')
    ON CONFLICT DO NOTHING
"""


def add(conn: connection, session: str, seconds: float) -> None:
    """Store the end of a session whose cookie is valid for at most `seconds` more."""
    with conn.cursor() as cur:
        cur.execute(_DROP_OLD)
        cur.execute(_ADD, (session, seconds))


def read(conn: connection) -> frozenset[str]:
    """Return the sessions that were logged out and whose cookies would still be valid."""
    with conn.cursor() as cur:
        cur.execute("SELECT session FROM onramp_admin.ended_sessions WHERE until >= now()")
        return frozenset(session for (session,) in cur.fetchall())
