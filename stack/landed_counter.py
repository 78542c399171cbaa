"""Counts the demo's events: accepted ones, and those that are rows.

Comparing the number of rows before and after would miss a lost event when another row is added. So the
accepted ids go into a temporary table and are joined with the landing table, id by id.
"""

import io
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

import psycopg2
from psycopg2 import sql

_FLUSH_AT = 10_000


class LandedCounter:
    """Accepted events of one event type, and their rows in Postgres."""

    def __init__(self, dsn: str, event_name: str) -> None:
        """Connect, and create the temporary table.

        Raises:
            psycopg2.OperationalError: the database cannot be reached.
        """
        self._table = sql.Identifier("events", event_name)
        self._connection = psycopg2.connect(dsn, application_name="onramp-demo")
        self._connection.autocommit = True
        self._ids = io.StringIO()
        self._buffered = 0
        self._ends: dict[tuple[str, int], int] = {}
        self.accepted = 0
        self._ask(sql.SQL("CREATE TEMPORARY TABLE accepted (id text)"))

    def __enter__(self) -> Self:
        """Use as a context, so that the connection is closed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection; the temporary table goes with it."""
        self._connection.close()

    def note(self, event_id: str, receipt: dict[str, Any]) -> None:
        """Record an accepted event and its Kafka offset."""
        partition = (str(receipt["topic"]), int(receipt["partition"]))
        self._ends[partition] = max(self._ends.get(partition, 0), int(receipt["offset"]) + 1)
        self._ids.write(event_id + "\n")  # The id's alphabet needs no escape in COPY.
        self.accepted += 1
        self._buffered += 1
        if self._buffered >= _FLUSH_AT:
            self._flush()

    def settled(self) -> int:
        """Return how many offsets are still missing in the ledger, 0 when all are settled.

        Cheap enough to call several times a second. The ledger's rows of a topic that was
        deleted and recreated are older: the highest counts, and `landed` decides.
        """
        if not self._exists("onramp", "ledger"):
            return self.accepted
        rows = self._ask(
            sql.SQL("SELECT topic, partition, max(next_offset) FROM onramp.ledger GROUP BY 1, 2")
        )
        ledger = {(topic, number): offset for topic, number, offset in rows}
        return sum(max(0, end - ledger.get(partition, 0)) for partition, end in self._ends.items())

    def landed(self, since: datetime) -> tuple[int, int]:
        """Return how many accepted events are rows: those received since then, and earlier ones.

        An earlier one is a row of the same event from an earlier run.
        """
        self._flush()
        if not self._exists("events", self._table.strings[1]):
            return 0, 0
        # Receipt times have milliseconds, this clock has more digits: a rounded time is not earlier.
        since -= timedelta(milliseconds=1)
        query = sql.SQL(
            "SELECT count(*) FILTER (WHERE row._received_at >= %s),"
            "       count(*) FILTER (WHERE row._received_at < %s)"
            "  FROM accepted JOIN {table} AS row ON row._id = accepted.id"
        ).format(table=self._table)
        now, earlier = self._ask(query, (since, since))[0]
        return int(now), int(earlier)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Run one of the demo's queries."""
        return self._ask(sql.SQL(query))

    def _exists(self, schema: str, table: str) -> bool:
        rows = self._ask(
            sql.SQL("SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = %s"), (schema, table)
        )
        return bool(rows)

    def _flush(self) -> None:
        self._ids.seek(0)
        with self._connection.cursor() as cursor:
            cursor.copy_expert("COPY accepted (id) FROM STDIN", self._ids)
        self._ids = io.StringIO()
        self._buffered = 0

    def _ask(self, query: sql.Composable, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(query, values)
            return cursor.fetchall() if cursor.description else []
