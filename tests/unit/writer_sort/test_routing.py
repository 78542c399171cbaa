"""Routes indexed for lookups: lookup results, and the cost of lookups and of building the index."""

import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest

from services.writer.driver.routes_from_registry import CurrentRoutes
from services.writer.model.routes import Contract, EventRoute, Grant, RoutedDatabase, Routes
from services.writer.model.targets import Target
from services.writer.sort import route_lookup
from services.writer.sort.route_lookup import RouteLookup, lookup_for
from services.writer.sort.sort import sort
from shared.kafka_read.records import PartitionSlice
from shared.registry.entries import Snapshot
from tests.fixtures.writer import PARTITION, arrivals, database_of, event


def _many(n: int) -> Routes:
    """Routed types, each with its own contract."""
    return Routes(
        "onramp",
        event_routes=tuple(EventRoute(f"type_{i}", "onramp", "public", f"table_{i}") for i in range(n)),
        contracts=tuple(Contract("discard", "onramp", "public", f"table_{i}") for i in range(n)),
        grants=tuple(Grant(f"events.type_{i}", "onramp", "public", f"table_{i}") for i in range(n)),
    )


def _calls(work: Callable[[], Any]) -> int:
    """Return the number of function calls of `work`, a cost that is the same on any machine."""
    calls = 0

    def count(_: Any, what: str, __: Any) -> None:
        nonlocal calls
        calls += what in {"call", "c_call"}

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def _sort(routes: Routes) -> list[Target]:
    runs = [PartitionSlice(PARTITION, arrivals([event("a", "type_3")]))]
    return [target for found in sort(runs, routes) for target in found.tables]


def test_a_run_costs_the_same_with_ten_routed_types_and_with_a_thousand() -> None:
    few, many = _many(10), _many(1_000)
    assert _sort(few) == _sort(many) == [Target("onramp", "public", "table_3", True, "discard")]
    assert _calls(lambda: _sort(many)) <= _calls(lambda: _sort(few)) + 5


def test_a_worker_that_gets_the_same_routes_again_lays_nothing_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = pickle.dumps(_many(50))
    _sort(pickle.loads(sent))  # noqa: S301 - as Spark does
    monkeypatch.setattr(route_lookup, "RouteLookup", None)
    assert _sort(pickle.loads(sent))  # noqa: S301


def test_laying_out_is_linear_in_the_routes() -> None:
    def lay_out(routes: Routes) -> None:
        laid = RouteLookup(routes)
        for route in routes.event_routes:
            laid.tables_of(route.event_name)

    few, many = (_calls(lambda n=n: lay_out(_many(n))) for n in (200, 1_600))
    assert many < 8 * few * 1.5


def test_the_name_of_a_snapshot_is_made_once_and_travels_with_it() -> None:
    routes = _many(100)
    name = routes.digest
    assert Routes.from_json(routes.as_json()) == routes == _many(100)
    assert Routes.from_json(routes.as_json()).digest == name
    sent = pickle.loads(pickle.dumps(routes))  # noqa: S301
    assert _calls(lambda: sent.digest) < 5


def test_the_loop_makes_routes_once_for_each_state_of_the_registry() -> None:
    current = CurrentRoutes([database_of("postgresql://nobody@127.0.0.1:1/none")])
    one, other = Snapshot(), Snapshot()
    made = current.of(one)
    assert current.of(one) is made
    assert current.of(other) is not made


def test_only_so_many_states_are_kept() -> None:
    first = Routes("onramp-0")
    kept = lookup_for(first)
    for i in range(1, 20):
        lookup_for(Routes(f"onramp-{i}"))
    assert lookup_for(first) is not kept
    assert lookup_for(first) is lookup_for(Routes("onramp-0"))


@pytest.mark.parametrize(
    ("table", "expected"), [("raw_a", "freeze"), ("raw_b", "discard"), ("[x]", "freeze"), ("x", "discard")]
)
def test_the_first_contract_that_covers_a_table_holds(table: str, expected: str) -> None:
    """Whether it names the table or a pattern."""
    contracts = (
        Contract("freeze", table="raw_a"),
        Contract("discard", table="raw_*"),
        Contract("freeze", table="raw_b"),
        Contract("discard", table="[x]"),
    )
    target = RouteLookup(Routes("onramp", contracts=contracts)).typed("onramp", "public", table)
    assert target.unknown_fields == expected


def test_first_of_two_databases_with_the_same_name_is_used() -> None:
    places = (RoutedDatabase("a", "first"), RoutedDatabase("a", "second"))
    assert RouteLookup(Routes("a", places)).database("a") == places[0]
    assert RouteLookup(Routes("a", places)).database("onramp") is None
