"""Events that waited for a database and that SORT no longer routes to it.

A new version of the writer may parse more strictly than the version that let the events wait.  The ledger
advances over them with their range, so each is parked in the database that it waited for, in the same
transaction.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa

from services.writer.model.targets import Target
from services.writer.persist import landing_tables
from services.writer.settle.settlement import Settlement
from services.writer.sort.packets import destinations
from services.writer.sort.route_lookup import RouteLookup
from services.writer.sort.sort import Unroutable
from shared import wire
from shared.errors import INTERNAL_SORT, UserError
from shared.kafka_read.offsets import Partition
from shared.kafka_read.records import PartitionSlice

#: The columns of a landing table that identify a row's record.
_ORIGIN: Final = {"_topic": "topic", "_partition": "partition", "_offset": "offset"}


class NoLongerRouted(NamedTuple):
    """An event that is to be parked for `target`; `origin`: a row that identifies its record."""

    target: Target
    partition: Partition
    offset: int
    origin: pa.RecordBatch
    error: UserError


def find_no_longer_routed(
    records: PartitionSlice,
    routed_offsets: Collection[int],
    unroutable: Sequence[Unroutable],
    database: str,
    routing: RouteLookup,
) -> Iterator[NoLongerRouted]:
    """Yield the events of `records`, which waited for `database`, that are not in `routed_offsets`.

    `unroutable`: the events that have no destination at all, with their errors.
    """
    if len(routed_offsets) == len(records):
        return
    errors = {u.offset: u.error for u in reversed(unroutable)}  # the first error of each event
    for i, offset in enumerate(records.rows.column("offset").to_pylist()):
        if offset not in routed_offsets:
            record = records.rows.slice(i, 1)
            error = errors.get(offset) or UserError(INTERNAL_SORT, "not routed to its database any more")
            for target in _tables(
                record.column("value")[0].as_py(), records.partition.topic, database, routing
            ):
                yield NoLongerRouted(target, records.partition, offset, origins_of(record), error)


def park(events: Iterable[NoLongerRouted], settlement: Settlement, settled: Mapping[Partition, int]) -> None:
    """Park the events that are not settled yet: those at or above their partition's offset in `settled`."""
    for event in events:
        if event.offset >= settled[event.partition]:
            settlement.park_unrouted(event.target, pa.Table.from_batches([event.origin]), event.error)


def origins_of(arrivals: pa.RecordBatch) -> pa.RecordBatch:
    """Return the origins of `arrivals` in a landing table's columns, the only ones that parking needs."""
    return pa.RecordBatch.from_arrays([arrivals.column(c) for c in _ORIGIN.values()], names=list(_ORIGIN))


def _tables(value: bytes | None, topic: str, database: str, routing: RouteLookup) -> list[Target]:
    """Return the tables of `database` that the event names if it can be parsed, else its topic's table."""
    targets = [t for t in _named(_document(value), topic, routing) if t.database == database]
    return targets or [Target(database, landing_tables.SCHEMA, topic.removeprefix(wire.EVENT_TOPIC_PREFIX))]


def _document(value: bytes | None) -> Mapping[str, Any]:
    try:
        document = orjson.loads(value or b"null")
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _named(document: Mapping[str, Any], topic: str, routing: RouteLookup) -> Collection[Target]:
    if "pipeline_context" in document:
        return destinations(orjson.dumps(document["pipeline_context"]), topic, routing).targets
    name = document.get("event_name")
    return routing.tables_of(name) if isinstance(name, str) and name.isprintable() else ()
