"""Halted databases, for a person: why, since when, and how it is to be resolved."""

from datetime import datetime
from typing import Final, NamedTuple

from services.admin.operate.holds_sql import connected

_READ: Final = "SELECT reason, since, resolution FROM onramp.halts"
_RESOLVE: Final = "UPDATE onramp.halts SET resolution = %s, resolved_by = session_user"


class Halt(NamedTuple):
    """Why a database is halted.  `resolution`: what a person wants, None while nobody has said."""

    database: str
    reason: str
    since: datetime
    resolution: str | None


def halt_of(database: str, dsn: str) -> Halt | None:
    """The halt of the database, None when it is not halted.  Raises `InfrastructureError`."""
    with connected(database, dsn) as conn, conn.cursor() as cursor:
        cursor.execute(_READ)
        found = cursor.fetchone()
        return Halt(database, *found) if found else None


def resolve(database: str, dsn: str, resolution: str) -> bool:
    """Tell the writer how to resolve the halt; False when there is none.  Raises `InfrastructureError`."""
    with connected(database, dsn) as conn, conn.cursor() as cursor:
        cursor.execute(_RESOLVE, (resolution,))
        return bool(cursor.rowcount)
