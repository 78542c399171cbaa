"""The next offset of each partition in a database: diverted events below it have drained."""

from typing import Final

from services.ops.findings import Source
from services.ops.operate.holds_sql import connected

#: For a recreated topic the furthest offset counts: this is an overview, not the audit.
_LEDGER: Final = "SELECT topic, partition, max(next_offset) FROM onramp.ledger GROUP BY 1, 2"


def ledger_of(database: str, dsn: str) -> dict[Source, int]:
    """Return the next offset of each partition in one database.  Raises `InfrastructureError`."""
    with connected(database, dsn) as conn, conn.cursor() as cursor:
        cursor.execute(_LEDGER)
        return {Source(topic, n): next_offset for topic, n, next_offset in cursor.fetchall()}
