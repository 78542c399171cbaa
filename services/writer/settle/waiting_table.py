"""`onramp.waiting`: the events that wait behind a hold, byte for byte, in their own database."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2.extensions import connection
from psycopg2.extras import execute_values

from services.writer.postgres import rows_by_bytes
from services.writer.settle.holds import KIND_TYPE, DeadLetteredHold
from shared.kafka_read.offsets import Partition
from shared.kafka_read.records import ARRIVALS, USUAL

#: Maximum bytes that a release takes at once; as rows and as an Arrow table they use several times as much.
MAX_BYTES: Final = 16 << 20
_AT_ONCE: Final = 500
_ADD: Final = """
    INSERT INTO onramp.waiting (topic_id, topic, partition, "offset", destination, db_schema, db_table,
                                typed, event_type, code, value, received_at, timestamp) VALUES %s
"""
#: Each type and table once, by jumping from one to the next: millions may wait for one of them.
_TABLES: Final = """
    WITH RECURSIVE place AS (
        (SELECT event_type, destination, db_schema, typed, db_table FROM onramp.waiting
         ORDER BY 1, 2, 3, 4 LIMIT 1)
        UNION ALL
        SELECT next.* FROM place, LATERAL (
            SELECT w.event_type, w.destination, w.db_schema, w.typed, w.db_table FROM onramp.waiting w
            WHERE (w.event_type, w.destination, w.db_schema, w.typed)
                > (place.event_type, place.destination, place.db_schema, place.typed)
            ORDER BY 1, 2, 3, 4 LIMIT 1) next
    )
    SELECT db_schema, db_table, typed, array_agg(event_type) FROM place
    GROUP BY destination, db_schema, db_table, typed ORDER BY destination, db_schema, typed
"""
_WAITING: Final = "FROM onramp.waiting WHERE destination = %s AND db_schema = %s AND typed = %s"
_EVENTS: Final = f"""
    SELECT ctid, topic_id, topic, partition, "offset", value, received_at, timestamp {_WAITING}
"""
_ONE: Final = f"""{_EVENTS}
    AND topic_id = %s AND partition = %s AND "offset" = %s FOR UPDATE
"""
_ORDER: Final = 'topic_id, partition, "offset"'
#: By keyset: landed events leave dead rows, and else each step would scan all of them again.
#: ORDER BY uses output columns: with `topic_id::text` among them all waiting events would be sorted.
_TAKE: Final = rows_by_bytes.bytes_of(
    f"""{_EVENTS} AND event_type <> ALL (%s)
    AND (topic_id, partition, "offset") > (%s::uuid, %s, %s)
    ORDER BY {_ORDER} LIMIT %s FOR UPDATE""",
    _ORDER,
)
_DEAD_LETTERED: Final = f"""AND added_at <= %s AND (topic_id, partition, "offset") > (%s::uuid, %s, %s)
    ORDER BY {_ORDER} LIMIT %s FOR UPDATE"""
_TAKE_DEAD_LETTERED: Final = rows_by_bytes.bytes_of(f"{_EVENTS} {_DEAD_LETTERED}", _ORDER)
#: By the index of types: the events of other types may be millions, and none of them is read.
_TAKE_DEAD_LETTERED_OF_TYPE: Final = rows_by_bytes.bytes_of(
    f"{_EVENTS} AND event_type = %s {_DEAD_LETTERED}", _ORDER
)
_FIRST: Final = f"""
    SELECT {_ORDER} {_WAITING} AND event_type <> ALL (%s) ORDER BY {_ORDER} LIMIT %s
"""
_DROP: Final = "DELETE FROM onramp.waiting WHERE ctid = ANY (%s::tid[])"


class WaitingKey(NamedTuple):
    """The position of a release among the events of a table."""

    topic_id: str
    partition: int
    offset: int


#: The key before every event.
START: Final = WaitingKey("00000000-0000-0000-0000-000000000000", -1, -1)


@dataclass(frozen=True, slots=True)
class WaitingTable:
    """A table that events wait for, and whether as typed rows; packets may name a landing table too."""

    schema: str
    table: str
    typed: bool

    @property
    def destination(self) -> str:
        """Return the table's name, as in targets and totals."""
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class WaitingEvents:
    """Events of one partition that are to land now, as they arrived; their rows are locked."""

    topic_id: str
    partition: Partition
    records: pa.RecordBatch
    ctids: tuple[str, ...]

    @property
    def last(self) -> WaitingKey:
        """Return the key of the last event."""
        return WaitingKey(self.topic_id, self.partition.number, self.records.column("offset")[-1].as_py())

    @property
    def size(self) -> int:
        """Return the size of the events in bytes."""
        return int(pc.sum(pc.binary_length(self.records.column("value"))).as_py())


def add(
    conn: connection,
    table: WaitingTable,
    topic_id: str,
    records: pa.Table,
    reasons: Mapping[int, tuple[str, str]],
) -> None:
    """Let `records` (of one partition) wait for `table`; `reasons`: event type and code by offset."""
    rows = [
        (
            topic_id,
            row["topic"],
            row["partition"],
            row["offset"],
            table.destination,
            table.schema,
            table.table,
            table.typed,
            *reasons[row["offset"]],
            row["value"],
            row["received_at"],
            row["timestamp"],
        )
        for row in records.to_pylist()
    ]
    with conn.cursor() as cursor:
        execute_values(cursor, _ADD, rows, page_size=_AT_ONCE)


def tables(conn: connection) -> dict[WaitingTable, frozenset[str]]:
    """Return the tables that events wait for, with the events' types.  Costs an index probe for each pair."""
    with conn.cursor() as cursor:
        cursor.execute(_TABLES)
        return {WaitingTable(*row): frozenset(types) for *row, types in cursor.fetchall()}


def take(
    conn: connection, table: WaitingTable, paused: Collection[str], limit: int, after: WaitingKey = START
) -> list[WaitingEvents]:
    """Return the first events behind `after` that wait for `table` and are of no `paused` type.

    All returned events but the last together have less than `MAX_BYTES`.
    """
    with conn.cursor() as cursor:
        cursor.execute(_TAKE, (*_names(table), list(paused), *after, limit, MAX_BYTES))
        rows_found = cursor.fetchall()
    return list(_by_partition(rows_found))


def take_dead_lettered(
    conn: connection, table: WaitingTable, hold: DeadLetteredHold, limit: int, after: WaitingKey
) -> list[WaitingEvents]:
    """Return the first events behind `after` that wait for `table` and are dead-lettered with `hold`."""
    is_of_type = hold.kind == KIND_TYPE
    statement = _TAKE_DEAD_LETTERED_OF_TYPE if is_of_type else _TAKE_DEAD_LETTERED
    which = (*_names(table), hold.name) if is_of_type else _names(table)
    with conn.cursor() as cursor:
        cursor.execute(statement, (*which, hold.at, *after, limit, MAX_BYTES))
        rows_found = cursor.fetchall()
    return list(_by_partition(rows_found))


def is_full(batches: Collection[WaitingEvents], limit: int) -> bool:
    """Return whether `take` may have left events because of a bound."""
    return (
        sum(events.records.num_rows for events in batches) == limit
        or sum(events.size for events in batches) >= MAX_BYTES
    )


def first(conn: connection, table: WaitingTable, paused: Collection[str], limit: int) -> list[WaitingKey]:
    """Return the keys of the first events that wait for `table` and are of no `paused` type."""
    with conn.cursor() as cursor:
        cursor.execute(_FIRST, (*_names(table), list(paused), limit))
        return [WaitingKey(*row) for row in cursor.fetchall()]


def retake(conn: connection, table: WaitingTable, key: WaitingKey) -> WaitingEvents | None:
    """Lock and return the event with `key`; None if it no longer waits."""
    with conn.cursor() as cursor:
        cursor.execute(_ONE, (*_names(table), *key))
        return next(_by_partition(cursor.fetchall()), None)


def _names(table: WaitingTable) -> tuple[str, str, bool]:
    return table.destination, table.schema, table.typed


def _by_partition(rows_found: list[tuple[Any, ...]]) -> Iterator[WaitingEvents]:
    groups: dict[tuple[str, Partition], list[tuple[str, dict[str, Any]]]] = {}
    for ctid, topic_id, topic, number, offset, value, received_at, timestamp, *_ in rows_found:
        row = {
            "topic": topic,
            "partition": number,
            "offset": offset,
            "value": bytes(value),
            "received_at": None if received_at is None else bytes(received_at),
            "timestamp": timestamp,
            "context": USUAL,
        }
        groups.setdefault((topic_id, Partition(topic, number)), []).append((ctid, row))
    for (topic_id, partition), rows in groups.items():
        records = pa.RecordBatch.from_pylist([row for _, row in rows], schema=ARRIVALS)
        yield WaitingEvents(topic_id, partition, records, tuple(ctid for ctid, _ in rows))


def apart_by_generation(batches: Collection[WaitingEvents]) -> list[list[WaitingEvents]]:
    """Return `batches` in groups in which each partition has one topic generation.

    The generations of a topic have the same partitions and the same offsets.
    """
    groups: list[dict[Partition, WaitingEvents]] = []
    for events in batches:
        group = next((p for p in groups if events.partition not in p), None)
        if group is None:
            groups.append(group := {})
        group[events.partition] = events
    return [list(group.values()) for group in groups]


def drop(conn: connection, batches: Collection[WaitingEvents]) -> None:
    """Remove events that have landed or are parked (the model's rule `release_once`)."""
    with conn.cursor() as cursor:
        cursor.execute(_DROP, ([ctid for events in batches for ctid in events.ctids],))
