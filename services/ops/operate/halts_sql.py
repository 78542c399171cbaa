"""Halted databases, for an operator: reason, time, and the requested resolution."""

from datetime import datetime
from typing import Final, NamedTuple

from services.ops.operate.holds_sql import connected
from shared.postgres.connect import has_table

_READ: Final = "SELECT reason, since, resolution FROM onramp.halts"
_RESOLVE: Final = """
    UPDATE onramp.halts SET resolution = %(how)s, resolved_by = coalesce(%(by)s, session_user)
    WHERE %(since)s::timestamptz IS NULL OR (since = %(since)s AND resolution IS NOT DISTINCT FROM %(before)s)
"""


class Halt(NamedTuple):
    """A database's halt.  `resolution`: the operator's decision, or None."""

    database: str
    reason: str
    since: datetime
    resolution: str | None


def halt_of(database: str, dsn: str) -> Halt | None:
    """Return the halt of the database, or None if it is not halted.  Raises `InfrastructureError`.

    A database that no writer has prepared is not halted.
    """
    with connected(database, dsn) as conn, conn.cursor() as cursor:
        if not has_table(conn, "onramp.halts"):
            return None
        cursor.execute(_READ)
        row = cursor.fetchone()
        return Halt(database, *row) if row else None


def resolve(
    database: str, dsn: str, resolution: str, *, by: str | None = None, of: Halt | None = None
) -> bool:
    """Store the resolution for the writer; return False without a halt.

    With `of`, also return False if the halt has changed since then.  `by`: the operator, by default the
    database's role.  Raises `InfrastructureError`.
    """
    values = {"how": resolution, "by": by, "since": of and of.since, "before": of and of.resolution}
    with connected(database, dsn) as conn, conn.cursor() as cursor:
        cursor.execute(_RESOLVE, values)
        return bool(cursor.rowcount)
