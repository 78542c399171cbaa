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


def links(reference: str) -> dict[str, Any]:
    """A chain of pairs as definitions; `reference` has a place for the number of the next one."""
    pairs = {f"a{n}": {"allOf": [{"$ref": reference.format(n + 1)}] * 2} for n in range(34)}
    return {**pairs, "a34": STRING}


CHAIN = links("#/$defs/a{}")
START = {"$ref": "#/$defs/a0"}
#: It starts at a definition of the same name in another part.
DECOY = {"$ref": "#/$defs/a0", "$defs": {"a0": {}}}
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}


def by_ids(key: str) -> dict[str, Any]:
    """A chain of pairs that refer to each other by names in `$id` or `id`."""
    return {name: {key: f"#{name}", **each} for name, each in links("#a{}").items()}


#: The validator follows each to the chain; references are relative to the `$id` of a part, or seem to be.
COSTLY_BASES = {
    "within a part": {"$ref": "part", "$defs": {"p": {"$id": "part", **START, "$defs": CHAIN}}},
    "within a part behind a decoy": {
        "$ref": "part",
        "$defs": {"a0": {}, "p": {"$id": "part", **START, "$defs": CHAIN}},
    },
    "within a field": {"properties": {"x": {"$id": "https://a.example/part", **START, "$defs": CHAIN}}},
    "within a URN": {"$ref": "urn:a:b#/$defs/a0", "$defs": {"p": {"$id": "urn:a:b", "$defs": CHAIN}}},
    "another form of the URI": {"$ref": "%70art", "$defs": {"p": {"$id": "part", **START, "$defs": CHAIN}}},
    "a longer form of the URI": {
        "$ref": "q/../part/z/..",
        "$defs": {"p": {"$id": "part/", **START, "$defs": CHAIN}},
    },
    "the URI of the whole": {**START, "$defs": {"a0": {}, "p": {"$id": "", "$defs": CHAIN}}},
    "names of draft 7": {**DRAFT_7, "$ref": "#a0", "definitions": by_ids("$id")},
    "names of draft 4": {**DRAFT_4, "$ref": "#a0", "definitions": by_ids("id")},
    "a part of draft 4": {
        **DRAFT_4,
        "$ref": "part#/definitions/a0",
        "definitions": {"p": {"id": "part", "definitions": links("#/definitions/a{}")}},
    },
    "no base in draft 7": {**DRAFT_7, "properties": {"x": {"$id": "part", **DECOY}}, "$defs": CHAIN},
    "no base since draft 6": {"properties": {"x": {"id": "part", **DECOY}}, "$defs": CHAIN},
    "no base outside of keywords": {"$ref": "#/x-a", "x-a": {"$id": "part", **DECOY}, "$defs": CHAIN},
}

COSTLY = {
    **COSTLY_BASES,
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
    "parts with URIs": {
        "$id": "https://a.example/order",
        "properties": {"from": {"$ref": "address"}, "to": {"$ref": "address"}, "first": {"$ref": "/node"}},
        "$defs": {
            "address": {
                "$id": "address",
                "properties": {"zip": {"$ref": "#/$defs/zip"}},
                "$defs": {"zip": STRING},
            },
            "node": {
                "$id": "https://a.example/node",
                "properties": {"next": {"$ref": "#"}, "order": {"$ref": "order"}},
            },
        },
    },
    "a tree within a part": {
        "$ref": "tree",
        "$defs": {"t": {"$id": "tree", "properties": {"children": {"items": {"$ref": "#"}}}}},
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


def test_a_multiple_of_a_fraction_limits_the_size_of_events() -> None:
    def limit(divisor: float) -> int:
        return compile_schema({"items": {"multipleOf": divisor}}).cost.max_bytes

    # The validator takes 3 to 9 µs for each value, and twenty times as long below 1e-20.
    assert 100_000 < limit(0.01) < 300_000
    assert limit(1e-300) < 20_000
    assert limit(2.0) == limit(7) > 1_000_000


def test_of_a_costly_schema_one_fault_is_told() -> None:
    schema = compile_schema({"items": {"allOf": [{"type": "string"}] * 2000}})
    told = faults(schema, list(range(2000)), 9000)
    assert told == [{"pointer": "/payload/0", "detail": "expected type string"}]
    few = compile_schema({"items": {"type": "string"}})
    assert len(faults(few, list(range(20)), 90)) == 20
