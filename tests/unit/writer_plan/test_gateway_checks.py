"""Events that the gateway would refuse under each of two rules: names, sizes, schemas."""

from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from services.writer.model.routes import Routes
from services.writer.plan import gateway_checks
from services.writer.plan.rules import Rules, TypeRules
from shared.contracts import faults
from shared.parse.parse import read
from tests.fixtures.writer import envelope, event

ROUTES = Routes("onramp")


def rules(refuses_unknown: bool = False, max_bytes: int | None = None, **schemas: Any) -> Rules:
    types = {
        name: TypeRules(schema=None if each is None else orjson.dumps(each), max_bytes=max_bytes)
        for name, each in schemas.items()
    }
    return Rules(routes=ROUTES, types=types, refuses_unknown=refuses_unknown)


def refused(values: list[bytes | None], *sides: Rules) -> list[dict[int, list[str]]]:
    array = pa.array(values, pa.binary())
    found = gateway_checks.refused(read(array).columns, pc.binary_length(array), sides)
    return [{i: [f"{r.code} {r.pointer}" for r in reasons] for i, reasons in each.items()} for each in found]


NUMBER = {"properties": {"n": {"type": "integer"}, "items": {"items": {"type": "string"}}}}


def test_each_side_has_its_own_schema() -> None:
    values: list[bytes | None] = [
        event("a", n=1),
        event("b", n="x"),
        b"no json",
        None,
        event("c", name="other"),
    ]
    assert refused(values, rules(), rules(order_placed=NUMBER)) == [
        {},
        {1: ["schema_mismatch /payload/n"]},
    ]
    assert refused(values, rules(order_placed=NUMBER), rules(order_placed={})) == [
        {1: ["schema_mismatch /payload/n"]},
        {},
    ]


def test_all_faults_are_reported_and_elements_of_an_array_share_a_pointer() -> None:
    [found] = refused([event("a", n="x", items=["a", 1, 2])], rules(order_placed=NUMBER))
    assert sorted(found[0]) == ["schema_mismatch /payload/items/*", "schema_mismatch /payload/n"]


def test_a_schema_that_both_have_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    usual = faults.faults

    def count(*arguments: Any) -> Any:
        asked.append(arguments)
        return usual(*arguments)

    monkeypatch.setattr(gateway_checks, "faults", count)
    both = rules(order_placed=NUMBER)
    assert refused([event("a", n="x")], both, both) == [{0: ["schema_mismatch /payload/n"]}] * 2
    assert len(asked) == 1


def test_names_and_sizes_are_checked_as_the_gateway_does() -> None:
    values: list[bytes | None] = [event("a"), event("b", name="unheard"), envelope("c" * 100)]
    size = len(event("a"))
    [unknown, large] = refused(
        values, rules(True, order_placed=None), rules(max_bytes=size, order_placed=None)
    )
    assert unknown == {1: ["unknown_event_name /event_name"]}
    assert large == {2: ["event_too_large "]}


def test_an_event_that_the_gateway_does_not_check_for_its_cost_is_refused() -> None:
    costly = rules(order_placed={"properties": {"n": {"uniqueItems": True}}})
    values: list[bytes | None] = [event("a", n=[2**63 + i for i in range(size)]) for size in (501, 500)]
    assert refused(values, costly) == [{0: ["event_too_large "]}]
