"""Records in onramp.lake: a driver restores the state that its predecessor recorded."""

import pytest

from services.lake.driver.lake_log import LakeLog, PlannedRange
from services.lake.routes.lake_routes import LakeRoute, LakeRoutes, is_read, lookup_for, routes_of
from shared.kafka_read.offsets import Partition, Range
from shared.lake.lake_tables import Kind, LakeTable, Partitioning, Property
from shared.lake.lake_topic import PositionKey
from shared.lake.transactions import TablePosition
from shared.registry.entries import Snapshot

P = Partition("events.flight", 0)
OTHER = Partition("events.other", 3)
TABLE = LakeTable("flights", Partitioning.MONTH, (Property("n", Kind.INTEGER),), 400)
ROUTES = LakeRoutes((LakeRoute("flight", P.topic, TABLE),))
LATER = LakeRoutes(is_all=True)
KEY = PositionKey("flights", P.topic, "id", 0)


def successor(log: LakeLog) -> LakeLog:
    """Return the log that a successor reads from the records of `log`."""
    read = LakeLog()
    for key, value in log.plan_entries([Range("id", P, 5, 9)], ROUTES, []):
        assert read.read(key, value)
    return read


def test_a_successor_knows_the_plan_with_its_routes() -> None:
    log = successor(LakeLog())
    assert log.plan == (PlannedRange(Range("id", P, 5, 9), ROUTES.digest),)
    assert log.routes == {ROUTES.digest: ROUTES}
    (unfinished,) = log.unfinished({P: ("id", 5)})
    assert unfinished.range == Range("id", P, 5, 9)
    assert log.unfinished({P: ("id", 9)}) == []
    assert log.unfinished({P: ("another generation", 5)}) == []
    assert log.unfinished({}) == []


def test_the_next_plan_carries_unfinished_ranges_and_removes_routes_that_no_range_needs() -> None:
    log = successor(LakeLog())
    carried = log.unfinished({P: ("id", 5)})
    log.apply(log.plan_entries([Range("id2", OTHER, 0, 3)], LATER, carried))
    assert {each.digest for each in log.plan} == {ROUTES.digest, LATER.digest}
    assert set(log.routes) == {ROUTES.digest, LATER.digest}
    log.apply(log.plan_entries([Range("id2", OTHER, 3, 4)], LATER, []))
    assert set(log.routes) == {LATER.digest}


def test_positions_and_starts_are_recorded_once() -> None:
    log = LakeLog()
    entries = log.position_entries({KEY: TablePosition(9, 4)})
    log.apply(entries)
    assert log.positions == {KEY: TablePosition(9, 4)}
    assert log.position_entries({KEY: TablePosition(9, 4)}) == []
    log.apply(log.start_entries({KEY: 7}))
    assert log.starts == {KEY: 7}
    log.apply(log.start_entries({KEY: None}))
    assert log.starts == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"plan", b"[5]"),
        (b"plan", b"nonsense"),
        (b"\xff", b"{}"),
        (b"start/a/b", b"1"),
        (b"position/a/b/c/x", b"[1,2]"),
        (b"position/a/b/c/1", b"{}"),
        (b"routes/x", b"[" * 10_000),
    ],
)
def test_records_of_other_clients_change_nothing(key: bytes, value: bytes) -> None:
    log = LakeLog()
    assert not log.read(key, value)
    assert log == LakeLog()


def test_the_registry_decides_on_tables_and_the_operator_on_all() -> None:
    types = {
        "a": {"destinations": [{"type": "lake", "table": "b"}], "lake": {"partition": "none"}},
        "b": {},
        "c": {"topic": "events.shared", "schema": {"properties": {"x": {"type": "boolean"}}}},
    }
    snapshot = Snapshot.model_validate({"event_types": types})
    one = routes_of(snapshot, is_all=False)
    assert [(each.event_name, each.table.name) for each in one.routes] == [("a", "b")]
    assert one.routes[0].table.partitioning is Partitioning.NONE
    every = routes_of(snapshot, is_all=True)
    assert [(r.event_name, r.topic, r.table.name) for r in every.routes] == [
        ("a", "events.a", "b"),
        ("c", "events.shared", "c"),
    ]
    lookup = lookup_for(every)
    assert lookup.table_of("b", "events.b") is None  # its name is another type's table
    assert lookup.table_of("d", "events.shared") is None
    assert lookup.table_of("c", "events.other") == lookup.table_of("c", "events.shared")
    unregistered = lookup.table_of("d", "events.d")
    assert unregistered is not None
    assert unregistered.name == "d"
    assert lookup_for(one).table_of("d", "events.d") is None
    assert LakeRoutes.from_json(every.as_json()) == every


def test_topics_of_tables_are_read_and_with_all_types_those_of_events() -> None:
    assert is_read("events.flight", ROUTES)
    assert not is_read("events.other", ROUTES)
    assert is_read("events.other", LATER)
    assert not is_read("cdc.shop-public-orders", LATER)
    assert not is_read("onramp.settled", LATER)
