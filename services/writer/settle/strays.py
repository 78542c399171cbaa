"""Strays: events that waited for a database and that today's SORT does not send there any more.

A release may read more strictly than the one that let them wait, and the ledger passes over
them with their range: each is parked in the database that it waited for, in that transaction.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa

from services.writer.model.offsets import Partition
from services.writer.model.records import PartitionSlice
from services.writer.model.targets import Target
from services.writer.persist import landing
from services.writer.settle.settlement import Settlement
from services.writer.sort.packets import destinations
from services.writer.sort.route_lookup import RouteLookup
from services.writer.sort.sort import Unroutable
from shared import wire
from shared.errors import INTERNAL_SORT, UserError

#: Where a landing table has what says where a row came from.
_PLACE: Final = {"_topic": "topic", "_partition": "partition", "_offset": "offset"}


class Stray(NamedTuple):
    """An event that is to be parked for `target`; `place`: a row that says where it came from."""

    target: Target
    partition: Partition
    offset: int
    place: pa.RecordBatch
    error: UserError


def strays(
    run: PartitionSlice,
    sent: Collection[int],
    refused: Sequence[Unroutable],
    database: str,
    routing: RouteLookup,
) -> Iterator[Stray]:
    """Those of `run`, which all waited for `database`, that are not among the offsets `sent` there.

    `refused`: what was found to go nowhere, and why.
    """
    if len(sent) == len(run):
        return
    errors = {u.offset: u.error for u in reversed(refused)}  # the first of an event's
    for at, offset in enumerate(run.rows.column("offset").to_pylist()):
        if offset not in sent:
            one = run.rows.slice(at, 1)
            error = errors.get(offset) or UserError(INTERNAL_SORT, "it is not for the database it waited for")
            for target in _tables(one.column("value")[0].as_py(), run.partition.topic, database, routing):
                yield Stray(target, run.partition, offset, places_of(one), error)


def park(found: Iterable[Stray], settlement: Settlement, settled: Mapping[Partition, int]) -> None:
    """Park those that are not `settled`: at that offset of their partition and after it."""
    for stray in found:
        if stray.offset >= settled[stray.partition]:
            settlement.park(stray.target, pa.Table.from_batches([stray.place]), stray.error)


def places_of(arrivals: pa.RecordBatch) -> pa.RecordBatch:
    """Where `arrivals` came from, in the words of a landing table: all that parking asks of a row."""
    return pa.RecordBatch.from_arrays([arrivals.column(c) for c in _PLACE.values()], names=list(_PLACE))


def _tables(value: bytes | None, topic: str, database: str, routing: RouteLookup) -> list[Target]:
    """The tables of `database` that the event names as far as it can be read, else its topic's."""
    found = [t for t in _named(_document(value), topic, routing) if t.database == database]
    return found or [Target(database, landing.SCHEMA, topic.removeprefix(wire.EVENT_TOPIC_PREFIX))]


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
