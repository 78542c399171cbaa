"""The owner of a database, one Kafka cluster and one public name, written once at the first claim.

Two names for one database, or two Onramps in it, would each read the other's ledger as settled, and
land nothing.  The second is halted until an operator decides (the model's rules `owner_checked` and
`owner_once`).
"""

from typing import Final, NamedTuple

from psycopg2.extensions import connection

from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from shared.errors import DATABASE_OWNED, InfrastructureError

_IS_THERE: Final = "SELECT to_regclass('onramp.owner')"
_TAKE: Final = "INSERT INTO onramp.owner (cluster_id, name) VALUES (%s, %s) ON CONFLICT (one) DO NOTHING"
_READ: Final = "SELECT cluster_id, name FROM onramp.owner"
#: The statement that an operator runs to hand the database over.
_HAND_OVER: Final = "UPDATE onramp.owner SET cluster_id = %s, name = %s, since = now()"


class Owner(NamedTuple):
    """A Kafka cluster's id, and the database's public name in that cluster."""

    cluster_id: str
    name: str


def check(database: Database, owner: Owner) -> None:
    """Check the owner before any change.  Raises `InfrastructureError` (DATABASE_OWNED)."""
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(_IS_THERE)
        if cursor.fetchone() != (None,):
            _compare(conn, database, owner)


def take(database: Database, owner: Owner) -> None:
    """Become the owner of the database, unless it has one.  Raises as `check` does.

    If two writers call this at once, the second waits for the first to commit, and reads its row.
    """
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(_TAKE, owner)
        _compare(conn, database, owner)


def _compare(conn: connection, database: Database, owner: Owner) -> None:
    with conn.cursor() as cursor:
        cursor.execute(_READ)
        row = cursor.fetchone()
        if row is None or Owner(*row) == owner:
            return
        known = Owner(*row)
        raise InfrastructureError(
            DATABASE_OWNED,
            f"database {database.name} belongs to {known.name} of Kafka cluster {known.cluster_id}, not to "
            f"{owner.name} of {owner.cluster_id}: two owners would lose each other's events. If the other "
            f"no longer exists, run: {cursor.mogrify(_HAND_OVER, owner).decode()}",
        )
