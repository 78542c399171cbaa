"""Slices are sorted together, with the same result as each alone."""

from services.writer.model.routes import EventRoute, Routes
from services.writer.sort.sort import Sorted, sort
from shared.kafka_read.offsets import Partition
from shared.kafka_read.records import PartitionSlice
from tests.fixtures.writer import arrivals, envelope, event

PACKET = (
    b'{"pipeline_context":{"destinations":[{"type":"postgres","vanity":"onramp","schema":"public",'
    b'"table":"t"}]},"data":{"n":1}}'
)
ROUTES = Routes(
    "onramp", event_routes=(EventRoute("twice", "onramp"), EventRoute("twice", "onramp", "public", "t"))
)
VALUES = {
    Partition("events.a", 0): [event("a-1"), event("a-2")],
    Partition("events.a", 1): [event("a-3"), b"no json", envelope("a-4", "twice"), PACKET],
    Partition("events.b", 7): [b"no json", None],
    Partition("events.c", 0): [PACKET, envelope("c-1", "other")],
}
SLICES = [
    PartitionSlice(p, arrivals(values, first=100 * n, partition=p))
    for n, (p, values) in enumerate(VALUES.items())
]


def _told(found: Sorted) -> tuple[object, ...]:
    tables = {target: rows.to_pylist() for target, rows in found.tables.items()}
    return tables, [(u.offset, u.value, str(u.error), u.identity) for u in found.unroutable]


def test_together_and_alone_come_to_the_same_rows() -> None:
    together = [_told(found) for found in sort(SLICES, ROUTES)]
    assert together == [_told(found) for each in SLICES for found in sort([each], ROUTES)]


def test_each_row_says_where_it_came_from() -> None:
    for each, found in zip(SLICES, sort(SLICES, ROUTES), strict=True):
        rows = [row for table in found.tables.values() for row in table.to_pylist()]
        assert {(row["_topic"], row["_partition"]) for row in rows} <= {tuple(each.partition)}
        offsets = {row["_offset"] for row in rows} | {u.offset for u in found.unroutable}
        assert offsets == set(each.rows.column("offset").to_pylist())
