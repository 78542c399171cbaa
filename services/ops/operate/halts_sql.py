"""Halted databases, for an operator: why, since when, and how the halt is to be resolved."""

from datetime import datetime
from typing import Final, NamedTuple

from services.ops.operate.holds_sql import connected

_READ: Final = "SELECT reason, since, resolution FROM onramp.halts"
_RESOLVE: Final = "UPDATE onramp.halts SET resolution = %s, resolved_by = session_user"


class Halt(NamedTuple):
    """Why a database is halted.  `resolution`: the operator's decision, None while there is none."""

    database: str
    reason: str
    since: datetime
    resolution: str | None


def halt_of(database: str, dsn: str) -> Halt | None:
    """Return the halt of the database, None when it is not halted.  Raises `InfrastructureError`."""
    with connected(database, dsn) as conn, conn.cursor() as cursor:
        cursor.execute(_READ)
        row = cursor.fetchone()
        return Halt(database, *row) if row else None


def resolve(database: str, dsn: str, resolution: str) -> bool:
    """Tell the writer how to resolve the halt; False when there is none.  Raises `InfrastructureError`."""
    with connected(database, dsn) as conn, conn.cursor() as cursor:
        cursor.execute(_RESOLVE, (resolution,))
        return bool(cursor.rowcount)
