"""Previews: shows samples as rows of a table that need not exist, and leaves nothing behind.

A sample is written into a temporary copy of the table by the code that lands live events.  Each is written
alone, so that its row and its error are its own.
"""

import logging
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa

from services.writer.model.targets import Target
from services.writer.persist import landing_tables
from services.writer.persist.table_copies import Copies, Variant
from services.writer.persist.table_rights import UntriedError
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from shared.contracts.tables import columns_of
from shared.errors import OnrampError, UserError
from shared.kafka_read.records import ARRIVALS, USUAL
from shared.parse.parse import read

log = logging.getLogger(__name__)

#: Previews of one run, so that a replay does not wait for many of them.
_MAX_AT_ONCE: Final = 10
_DROP_OLD: Final = "DELETE FROM onramp.previews WHERE staged_at < now() - interval '10 minutes'"
_TAKE: Final = """
    SELECT id::text, schema_name, table_name, unknown_fields, fields::text, samples FROM onramp.previews
    WHERE answer IS NULL ORDER BY staged_at LIMIT %s
"""
_ANSWER: Final = "UPDATE onramp.previews SET answer = %s WHERE id = %s"
#: The topic of samples in the receipts of their rows.
_TOPIC: Final = "preview"


class _Request(NamedTuple):
    id: str
    schema: str
    table: str
    unknown_fields: str
    fields: str | None
    samples: list[str]

    def variant(self, database: Database) -> Variant:
        """Return the table with the columns that are added first.  Raise `ValueError`."""
        target = Target(
            database.name, self.schema, self.table, typed=True, unknown_fields=self.unknown_fields
        )
        return Variant(target, tuple(columns_of(orjson.loads(self.fields))) if self.fields else ())


def answer_previews(database: Database) -> int:
    """Answer the staged previews of a database; return their number (blocking).

    Raises `InfrastructureError` when the database fails.
    """
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(_DROP_OLD)
        cursor.execute(_TAKE, (_MAX_AT_ONCE,))
        requests = [_Request(*row) for row in cursor.fetchall()]
    for request in requests:
        answer = _answer(database, request)
        with transaction(database, "driver") as conn, conn.cursor() as cursor:
            cursor.execute(_ANSWER, (orjson.dumps(answer).decode(), request.id))
    return len(requests)


def _answer(database: Database, request: _Request) -> dict[str, Any]:
    """Return the outcome of each sample, or the reason why none can be tried."""
    try:
        variant = request.variant(database)
    except ValueError as e:
        return {"problem": str(e), "samples": []}
    try:
        with transaction(database, "driver") as conn:
            copies = Copies(conn, database)
            try:
                return {"problem": None, "samples": _outcomes(copies, variant, request.samples)}
            finally:
                copies.drop()
    except UntriedError as e:
        return {"problem": str(e), "samples": []}
    except OnrampError as e:  # of an unreachable database the answer fails too, and is tried again
        return {"problem": e.detail, "samples": []}


def _outcomes(copies: Copies, variant: Variant, samples: list[str]) -> list[dict[str, Any]]:
    records = _records(samples)
    events = read(records.column("value"))
    rows = pa.Table.from_batches([landing_tables.rows(records, events.columns)])
    outcomes = []
    for i in range(len(samples)):
        if error := events.errors.get(i):
            outcomes.append(_parked(error))
            continue
        result, texts = copies.preview(variant, rows.slice(i, 1))
        if result.parked:
            outcomes.append(_parked(result.parked[0].error))
        else:
            outcomes.append({"outcome": "landed", "row": texts[0] if texts else None})
    return outcomes


def _parked(error: OnrampError) -> dict[str, Any]:
    detail = error.detail if isinstance(error, UserError) else type(error).__name__
    return {
        "outcome": "parked",
        "row": None,
        "code": error.fault.code,
        "detail": detail,
        "sqlstate": error.sqlstate,
        "column": error.column,
        "column_type": error.column_type,
        "constraint": error.constraint,
        "pointer": error.pointer,
        "step": error.step,
    }


def _records(samples: list[str]) -> pa.RecordBatch:
    now = datetime.now(UTC)
    columns = {
        "topic": [_TOPIC] * len(samples),
        "partition": [0] * len(samples),
        "offset": list(range(len(samples))),
        "value": [sample.encode() for sample in samples],
        "received_at": [now.isoformat().encode()] * len(samples),
        "timestamp": [now] * len(samples),
        "context": [USUAL] * len(samples),
    }
    return pa.RecordBatch.from_pydict(columns, schema=ARRIVALS)
