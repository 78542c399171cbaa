"""The rows of rehearsed events as Postgres returns them, from temporary copies of their tables.

A rehearsal itself lands a page of events together, in tables whose rows may have no receipt.  In a copy each
event is landed alone, so that its row is its own.  Nothing of it remains.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow as pa
from psycopg2.extensions import connection

from services.writer.model.routes import Routes
from services.writer.persist import encodings
from services.writer.persist.table_copies import Copies, Variant
from services.writer.persist.table_rights import UntriedError
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.replay.staged_attempts import Key, ParkedEvent
from services.writer.replay.target_table import place
from shared.errors import OnrampError

log = logging.getLogger(__name__)


def rows_of(database: Database, events: Sequence[ParkedEvent], routes: Routes) -> dict[Key, str]:
    """Return the rows of `events`, which are in the order of their keys, as JSON (blocking).

    Events whose table cannot be copied now have no row.
    """
    rows: dict[Key, str] = {}
    if not events:
        return rows
    try:
        with transaction(database, "driver") as conn:
            copies = Copies(conn, database)
            try:
                for _, generation in groupby(events, key=lambda each: each.topic_id):
                    rows |= dict(_rows(conn, database, copies, list(generation), routes))
            finally:
                copies.drop()
    except UntriedError as e:
        log.info("a rehearsal shows no rows", extra={"reason": str(e)})
    except OnrampError as e:
        log.info("a rehearsal shows no rows", extra={"reason": e.detail})
    return rows


def _rows(
    conn: connection, database: Database, copies: Copies, events: Sequence[ParkedEvent], routes: Routes
) -> Iterator[tuple[Key, str]]:
    """Yield the rows of events of one topic generation."""
    topic_id = events[0].topic_id
    for (target, destination), batches in place(conn, database.name, events, routes).rows.items():
        variant, rows = Variant(encodings.spelled(conn, target)), pa.Table.from_batches(batches)
        receipts = rows.select(["_partition", "_offset"]).to_pylist()
        for i, receipt in enumerate(receipts):
            _, texts = copies.preview(variant, rows.slice(i, 1))
            if texts:
                yield Key(topic_id, receipt["_partition"], receipt["_offset"], destination), texts[0]
