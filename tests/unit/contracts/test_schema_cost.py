"""A schema that could keep the gateway busy for seconds with one event is refused before it is in force."""

from typing import Any

import pytest

from shared.contracts.faults import faults
from shared.contracts.json_schema import compile_schema
from shared.contracts.schema_cost import SchemaCost, TooCostlyError

STRING = {"type": "string"}


def chain(length: int, link: dict[str, Any]) -> dict[str, Any]:
    """Definitions a0, a1, … of which each is `link` with `$next` in place of a reference to the next one."""

    def linked(value: Any, following: str) -> Any:
        if value == "$next":
            return {"$ref": f"#/$defs/{following}"}
        if isinstance(value, dict):
            return {key: linked(each, following) for key, each in value.items()}
        return [linked(each, following) for each in value] if isinstance(value, list) else value

    defs = {f"a{n}": linked(link, f"a{n + 1}") for n in range(length)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{length}": STRING}}


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = STRING
    for _ in range(depth):
        inner = {"allOf": [{"properties": {"a": inner}}, {"properties": {"a": inner}}]}
    return inner


COSTLY = {
    "a chain of pairs": chain(34, {"allOf": ["$next", "$next"]}),
    "a chain of alternatives": chain(34, {"anyOf": ["$next", "$next"]}),
    "a chain by conditions": chain(34, {"if": "$next", "then": "$next"}),
    "a chain by dependencies": chain(34, {"dependentSchemas": {"a": "$next", "b": "$next"}}),
    "unevaluated at each link": chain(14, {"allOf": ["$next"], "unevaluatedProperties": False}),
    "the same field twice at each level": nested(30),
    "recursion by one field twice": {
        "allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]
    },
    "recursion by a field and all fields": {
        "anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"additionalProperties": {"$ref": "#"}}]
    },
    "recursion by anchors": {
        "$dynamicAnchor": "node",
        "items": {"allOf": [{"$dynamicRef": "#node"}, {"$dynamicRef": "#node"}]},
    },
    "no end": {"allOf": [{"$ref": "#"}]},
    "a long chain": chain(1500, {"allOf": ["$next"]}),
}

USUAL = {
    "a tree": {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "value": {"type": "integer"}}},
    "a list of itself": {"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}},
    "many fields": {"properties": {f"field_{n}": STRING for n in range(1000)}},
    "a union": {
        "oneOf": [
            {"properties": {"type": {"const": n}, "value": STRING}, "required": ["type"]} for n in range(50)
        ]
    },
    "common definitions": chain(10, {"properties": {"id": "$next", "parent": "$next"}}),
    "patterns": {
        "properties": {
            "id": {"pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
            "sku": {"pattern": r"^[A-Z]{3}-\d+$"},
        }
    },
    "JSON Schema itself": {
        "properties": {"schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}
    },
}


@pytest.mark.parametrize("schema", COSTLY.values(), ids=list(COSTLY))
def test_a_schema_that_multiplies_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(TooCostlyError):
        SchemaCost(schema)


@pytest.mark.parametrize("schema", USUAL.values(), ids=list(USUAL))
def test_a_usual_schema_takes_events_of_every_size(schema: dict[str, Any]) -> None:
    assert compile_schema(schema).cost.max_bytes > 500_000


def test_a_pattern_that_is_in_many_states_at_once_limits_the_size_of_events() -> None:
    limits = [compile_schema({"pattern": f"[ab]*a[ab]{{{n}}}c"}).cost.max_bytes for n in (10, 100, 1000)]
    assert limits[0] > 1_000_000 > limits[1] > 100_000 > limits[2] > 10_000
    assert compile_schema({"pattern": "(?:(?:ab){30}c*){30}"}).cost.max_bytes < 100_000
    assert compile_schema({"patternProperties": {"[ab]*a[ab]{1000}": {}}}).cost.max_bytes < 100_000


def test_of_a_costly_schema_one_fault_is_told() -> None:
    schema = compile_schema({"items": {"allOf": [{"type": "string"}] * 2000}})
    told = faults(schema, list(range(2000)), 9000)
    assert told == [{"pointer": "/payload/0", "detail": "expected type string"}]
    few = compile_schema({"items": {"type": "string"}})
    assert len(faults(few, list(range(20)), 90)) == 20
