"""The rows of a landing table as Arrow columns, for the tables of Postgres and of the lake."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from shared import landing_columns
from shared.kafka_read.records import received_at

_TYPES: Final = {
    "text": pa.string(),
    "timestamptz": pa.timestamp("us", "UTC"),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "jsonb": pa.string(),
}
#: The columns of a landing table, in order.
COLUMNS: Final = pa.schema([(c.name, _TYPES[c.type]) for c in landing_columns.COLUMNS])
#: Functions that build each column from Kafka's records and their parsed events.
SOURCES: Final[dict[str, Callable[[pa.RecordBatch, pa.RecordBatch], pa.Array]]] = {
    "_id": lambda _, events: events.column("id"),
    "_event_name": lambda _, events: events.column("event_name"),
    "_timestamp": lambda _, events: events.column("timestamp"),
    "_version": lambda _, events: events.column("version"),
    "_received_at": lambda records, _: received_at(records),
    "_topic": lambda records, _: records.column("topic"),
    "_partition": lambda records, _: records.column("partition"),
    "_offset": lambda records, _: records.column("offset"),
    "payload": lambda _, events: events.column("body"),
}


def rows(records: pa.RecordBatch, events: pa.RecordBatch) -> pa.RecordBatch:
    """Build the rows (`COLUMNS`) of `events` (`events.COLUMNS`) and their Kafka `records` (`ARRIVALS`).

    Row i of both is the same event.  A packet's row has no metadata, which its typed table does not
    need.  Costs no Python operation per row.
    """
    values = [SOURCES[name](records, events) for name in COLUMNS.names]
    return pa.RecordBatch.from_arrays(values, schema=COLUMNS)
