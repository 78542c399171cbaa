"""A schema is compatible only if it accepts every payload of the previous one."""

import itertools
import json
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.contracts.compatibility import findings
from shared.contracts.json_schema import compile_schema
from shared.contracts.pair import Kind
from tests.unit.contracts.generated import Generator


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_schema_reported_as_compatible_accepts_every_previously_valid_payload(seed: int) -> None:
    make = Generator(seed)
    for _ in range(20):
        old = make.document()
        new = make.changed(old) if make.chance.random() < 0.9 else make.document()
        check(old, new, make)


def check(old: Any, new: Any, make: Generator) -> None:
    found = findings(old, new)
    if any(each.kind != Kind.WARNING for each in found):
        return
    before, after = judged(old), judged(new)
    if before is None or after is None:
        return
    warned = {each.pointer.rpartition("/")[2] for each in found}
    for payload in (make.value(3) for _ in range(30)):
        if before.is_valid(payload) and not carries(payload, warned):
            assert after.is_valid(payload), (old, new, payload)


def judged(schema: dict[str, Any]) -> Any:
    try:
        return compile_schema(schema)
    except ValueError:
        return None


def carries(value: Any, names: set[str]) -> bool:
    if isinstance(value, dict):
        return bool(names & value.keys()) or any(carries(each, names) for each in value.values())
    return isinstance(value, list) and any(carries(each, names) for each in value)


ORDER: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string", "maxLength": 10},
        "state": {"enum": ["open", "paid"]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "a/b~c": {"type": ["integer", "null"], "minimum": 0},
    },
    "$defs": {"line": {"type": "object", "properties": {"price": {"type": "number"}}}},
}


def changed(*path: str, to: Any) -> dict[str, Any]:
    """ORDER with another value at the path; None removes it."""
    new: dict[str, Any] = json.loads(json.dumps(ORDER))
    at = new
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = to
    if to is None:
        del at[path[-1]]
    return new


ID: Final = "/properties/id"


@pytest.mark.parametrize(
    ("new", "kind", "pointer", "reason"),
    [
        (changed("required", to=["id", "state"]), "break", "/required", "the field state was optional"),
        (changed("properties", "id", "maxLength", to=9), "break", f"{ID}/maxLength", "was 10, and is 9"),
        (changed("properties", "id", "format", to="uuid"), "break", f"{ID}/format", "only uuid"),
        (changed("properties", "id", "format", to="int32"), "undecided", f"{ID}/format", "unknown"),
        (changed("properties", "id", "type", to="integer"), "break", f"{ID}/type", "string is no longer"),
        (changed("properties", "id", "pattern", to="(a+)+$"), "break", f"{ID}/pattern", "any text"),
        (changed("properties", "state", "enum", to=["open"]), "break", "/properties/state/enum", "paid"),
        (changed("properties", "a/b~c", "minimum", to=1), "break", "/properties/a~1b~0c/minimum", ""),
        (changed("additionalProperties", to=False), "break", "/additionalProperties", "unnamed fields"),
        (
            changed("$defs", "line", "properties", "price", "type", to="integer"),
            "break",
            "/properties/lines/items/properties/price/type",
            "number is no longer accepted, only integer",
        ),
        (changed("properties", "lines", "items", to=False), "break", "/properties/lines/items", "no value"),
        (changed("properties", "new", to={"type": "string"}), "warning", "/properties/new", "a new field"),
        (changed("not", to={"required": ["x"]}), "undecided", "/not", "not compared"),
        (changed("$schema", to="urn:mine"), "undecided", "", "unknown"),
        (changed("$defs", "line", "$id", to="urn:x"), "undecided", "", "its own"),
        (changed("$ref", to="http://127.0.0.1:1/x"), "undecided", "/$ref", "next to"),
        (changed("properties", "id", to={"$ref": "file:///x"}), "undecided", f"{ID}/$ref", "leads out"),
        (changed("properties", "id", to={"$ref": "#/properties/id"}), "undecided", f"{ID}/$ref", "itself"),
        (changed("properties", "id", to={"$ref": "#/nowhere"}), "undecided", f"{ID}/$ref", "nothing"),
        (changed("properties", "id", to=7), "undecided", ID, "not a JSON Schema"),
    ],
)  # fmt: skip
def test_each_break_has_its_place_and_its_reason(new: Any, kind: str, pointer: str, reason: str) -> None:
    assert [(each.kind, each.pointer) for each in findings(ORDER, new)] == [(kind, pointer)]
    assert reason in findings(ORDER, new)[0].reason


@pytest.mark.parametrize(
    "new",
    [
        ORDER,
        True,
        changed("required", to=None),
        changed("properties", "state", to=None),
        changed("properties", "state", "enum", to=["paid", "open", 7]),
        changed("properties", "state", to={"type": "string", "maxLength": 4}),
        changed("properties", "a/b~c", to={"anyOf": [{"type": "null"}, {"type": "number"}]}),
        changed("properties", "a/b~c", to={"type": ["number", "null"], "exclusiveMinimum": -1}),
        changed("description", to="other words"),
    ],
)
def test_schema_that_accepts_more_is_compatible(new: Any) -> None:
    assert findings(ORDER, new) == []


@pytest.mark.parametrize(
    ("old", "new", "payload"),
    [
        ({"enum": ["a", "b"], "pattern": "."}, {"enum": ["a"], "pattern": "."}, "b"),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"additionalProperties": {"type": "null"}},
            {"a": 1},
        ),
        (
            {"patternProperties": {"^a": {}}, "additionalProperties": False},
            {"additionalProperties": {"type": "null"}},
            {"a": 1},
        ),
        ({"prefixItems": [{}], "items": False}, {"items": {"type": "null"}}, [1]),
        (
            {"properties": {"a": {}}, "unevaluatedProperties": False},
            {"unevaluatedProperties": False},
            {"a": 1},
        ),
    ],
)
def test_break_caused_by_two_keywords_together_is_found(old: Any, new: Any, payload: Any) -> None:
    assert compile_schema(old).is_valid(payload)
    assert not compile_schema(new).is_valid(payload)
    assert {each.kind for each in findings(old, new)} - {Kind.WARNING}


def test_full_is_both_ways_and_none_is_neither() -> None:
    wider = changed("properties", "id", "maxLength", to=11)
    (found,) = findings(ORDER, wider, "full")
    assert (found.kind, found.pointer) == ("break", f"{ID}/maxLength")
    assert "readers of the old" in found.reason
    assert findings(wider, ORDER, "none") == []


def test_recursive_schemas_end() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}}}
    wider = {"$ref": "#/$defs/n", "$defs": {"n": tree | {"properties": {"next": {"$ref": "#/$defs/n"}}}}}
    assert findings(tree, wider) == []
    loops = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}
    assert {each.kind for each in findings(loops, loops | {"title": "t", "type": "null"})} <= set(Kind)


def nested(depth: int, leaf: Any) -> Any:
    for _ in range(depth):
        leaf = {"properties": {"a": leaf}}
    return leaf


def crossed(many: int) -> dict[str, Any]:
    """Alternatives of alternatives: as many pairs as there are ways through both schemas."""
    return {
        "$defs": {f"n{i}": {"anyOf": [{"$ref": f"#/$defs/n{j}"} for j in range(many)]} for i in range(many)},
        "$ref": "#/$defs/n0",
    }


#: Made in the test: one has a million fields (200 MB), and every process of pytest imports this module.
@pytest.mark.parametrize(
    "make",
    [
        lambda: (nested(1000, {}), nested(1000, {"type": "null"})),
        lambda: (nested(10**5, {}), True),
        lambda: ({"enum": ["x" * 2**20]}, {"enum": ["y" * 2**20]}),
        lambda: ({"enum": list(range(20_000))}, {"enum": list(range(1, 20_001))}),
        lambda: (
            {"properties": {f"f{i}": {"maxLength": 1} for i in range(20_000)}},
            {"additionalProperties": False},
        ),
        lambda: ({"properties": {f"f{i}": {} for i in range(10**6)}}, {}),
        lambda: (crossed(40), crossed(40) | {"title": "t"}),
        lambda: ({"pattern": "(a+)+$", "enum": ["a" * 40 + "!"]}, {"pattern": "(a|a)*$"}),
        lambda: (
            {"type": 5, "required": 1, "properties": []},
            {"type": {}, "required": [1], "minLength": "x"},
        ),
        lambda: ([], {}),
        lambda: ({"const": {1: 2}}, {}),
        lambda: ({"minimum": float("nan")}, {"minimum": 2**70}),
    ],
    ids=itertools.count(),
)  # fmt: skip
def test_everything_gets_a_verdict_in_bounded_time(make: Callable[[], tuple[Any, Any]]) -> None:
    old, new = make()
    looked = 0

    def count(*_: Any) -> None:
        nonlocal looked
        looked += 1
        assert looked < 5_000_000

    sys.setprofile(count)
    try:
        found = findings(old, new)
    finally:
        sys.setprofile(None)
    assert found


def test_long_lists_of_many_alternatives_are_undecided_in_time() -> None:
    """Each alternative is compared with each other one: 44 lists of 4,500 values take minutes."""
    lists = [{"enum": [f"{n}_{m}" for m in range(100)]} for n in range(44)]
    assert not findings({"anyOf": lists[:9]}, {"anyOf": lists[8::-1]})
    [found] = findings({"anyOf": lists}, {"anyOf": lists[::-1]})
    assert found.kind == Kind.UNDECIDED
