"""The versions of an event type: each change of it, and the places that differ from the version before."""

from datetime import UTC, datetime
from typing import Any

from services.ops.registry.registry_reader import Change
from services.ops.registry.type_versions import differences, versions_of
from shared.registry.change_log import ChangeSet

AMOUNT = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}


def change(offset: int, **more: Any) -> Change:
    given = {"format": 1, "after": offset - 1, "actor": "ada", "reason": f"change {offset}"}
    return Change(offset, ChangeSet.model_validate(given | {"time": datetime.now(UTC)} | more))


def put(offset: int, name: str = "order_placed", **entry: Any) -> Change:
    return change(offset, put={"event_types": {name: entry}})


def compared(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    return [tuple(each) for each in differences(before, after)]


def test_a_version_is_a_change_of_this_type_with_its_differences() -> None:
    text = {"type": "object", "properties": {"amount": {"type": "string"}}, "required": ["amount"]}
    changes = [
        put(0, owner="shop", schema=AMOUNT),
        put(1, "signup", owner="web"),
        put(2, owner="shop", schema=AMOUNT),  # the same again
        put(3, owner="checkout", schema=text),
        change(4, delete={"event_types": ["order_placed"]}),
        put(5, owner="shop"),
    ]
    newest, deleted, third, first = versions_of("order_placed", changes, is_whole=True)
    assert (third.offset, third.actor, third.reason) == (3, "ada", "change 3")
    assert [tuple(each) for each in third.differences or ()] == [
        ("/owner", "shop", "checkout"),
        ("/schema/properties/amount/type", "number", "string"),
    ]
    assert "break" in {each.kind for each in third.findings}
    assert {each.pointer for each in first.differences or ()} == {"/owner", "/schema"}
    assert (deleted.entry, newest.entry) == (None, {"owner": "shop"})
    assert [each.pointer for each in newest.differences or ()] == ["/owner"]


def test_the_first_version_of_a_part_of_the_history_is_compared_with_nothing() -> None:
    (only,) = versions_of("order_placed", [put(900, owner="shop")], is_whole=False)
    assert only.differences is None


def test_objects_are_compared_by_member_and_lists_of_values_whole() -> None:
    assert compared({"a": {"b": 1}}, {"a": {"b": 1, "c/d": None}}) == []
    assert compared({"a": [1, 2]}, {"a": [1, 3]}) == [("/a", [1, 2], [1, 3])]
    tables = [{"table": "a"}, {"table": "b"}]
    assert compared(tables, [{"table": "a"}]) == [("/1", {"table": "b"}, None)]


def test_at_most_200_places_are_named() -> None:
    assert len(compared({}, {f"f{n}": n for n in range(1_000)})) == 200
