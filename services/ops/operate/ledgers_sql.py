"""How far each partition is settled in a database: what was diverted and lies below it has drained."""

from typing import Final

from services.ops.findings import Source
from services.ops.operate.holds_sql import connected

#: Of a topic that was recreated the furthest offset counts: this is a look, not the audit.
_LEDGER: Final = "SELECT topic, partition, max(next_offset) FROM onramp.ledger GROUP BY 1, 2"


def ledger_of(database: str, dsn: str) -> dict[Source, int]:
    """Return the next offset of each partition in one database.  Raises `InfrastructureError`."""
    with connected(database, dsn) as conn, conn.cursor() as cursor:
        cursor.execute(_LEDGER)
        return {Source(topic, n): next_offset for topic, n, next_offset in cursor.fetchall()}
