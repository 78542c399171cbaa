"""A schema with which one event could occupy the gateway for seconds is refused before it is in force."""

from typing import Any

import orjson
import pytest

from shared.contracts.faults import faults
from shared.contracts.json_schema import compile_schema
from shared.contracts.schema_cost import MAX_PER_EVENT, SchemaCost
from shared.contracts.schema_references import TooCostlyError

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


#: Each takes 5 to 230 s or 1 GB to compile, measured.
SLOW = {
    "a class repeated often": {
        "properties": {f"f{n}": {"pattern": rf"^\p{{L}}{{1,200}}{n}$"} for n in range(60)}
    },
    "a repeated repetition": {"pattern": r"(?:\p{L}{70}){70}"},
    "classes behind look-around": {"allOf": [{"pattern": rf"(?={n})\w{{200}}"} for n in range(60)]},
    "escapes that are replaced": {"pattern": r"\s" * 10_000},
    "a large pattern": {"patternProperties": {r"\p{L}" * 100_000: True}},
    "a range without regard to case": {"allOf": [{"pattern": f"(?i)[a-\U0010ffff]{n}"} for n in range(900)]},
}


@pytest.mark.parametrize("schema", SLOW.values(), ids=list(SLOW))
def test_patterns_that_take_long_to_compile_are_refused_before(schema: dict[str, Any]) -> None:
    with pytest.raises(TooCostlyError, match="patterns take too long to compile"):
        compile_schema(schema)


def test_usual_patterns_are_compiled() -> None:
    usual = [
        r"^[\p{L}\p{N} .'-]{1,100}$",
        r"^(?=.*\d)(?=.*[A-Z])[\w\s-]{8,64}$",
        r"^\s*\S+(\s+\S+){0,20}\s*$",
    ]
    usual += [rf"^[A-Z]{{2}}-\d{{1,{n}}}$" for n in range(1, 100)]
    schema = {"properties": {f"f{n}": {"pattern": usual[n % len(usual)]} for n in range(2000)}}
    assert compile_schema(schema).cost.max_bytes > 200_000


def test_thousands_of_references_to_a_large_definition_share_its_members() -> None:
    """A copy of the members for each takes a minute and several GB, measured."""
    large = {"properties": {f"p{n}": {} for n in range(400)}}
    often = {
        "$defs": {"large": large},
        "properties": {f"f{n}": {"$ref": "#/$defs/large"} for n in range(1000)},
    }
    assert SchemaCost(often).max_bytes > 1_000_000
    own = {f"f{n}": {"$ref": "#/$defs/large", "properties": {"a": {}}} for n in range(1600)}
    with pytest.raises(TooCostlyError, match="too long to compute"):
        SchemaCost({**often, "properties": own})


def test_a_pattern_that_is_in_many_states_at_once_limits_the_size_of_events() -> None:
    limits = [compile_schema({"pattern": f"[ab]*a[ab]{{{n}}}c"}).cost.max_bytes for n in (10, 100, 1000)]
    assert limits[0] > 1_000_000 > limits[1] > 100_000 > limits[2] > 10_000
    for repeated in ("(?:(?:ab){30}c*){30}", "[ab]*a[ab]{30}{30}c", "[ab]*(?:a[ab]{30})?{30}c"):
        assert compile_schema({"pattern": repeated}).cost.max_bytes < 100_000
    assert compile_schema({"patternProperties": {"[ab]*a[ab]{1000}": {}}}).cost.max_bytes < 100_000


@pytest.mark.parametrize("pattern", ["^x|a[ab]{1000}c", "^?a[ab]{1000}c", "^{0}a[ab]{1000}c"])
def test_a_pattern_of_which_only_a_part_is_anchored_limits_the_size_of_events(pattern: str) -> None:
    """Each takes 3.7 s with a text of 880 KB, measured."""
    assert compile_schema({"pattern": pattern}).cost.max_bytes < 20_000
    assert compile_schema({"pattern": f"^{pattern}".replace("|", "|^")}).cost.max_bytes > 1_000_000


NAMES = [f"f{n}" for n in range(6000)]
#: Each takes 2 to 100 s with a payload of 0.4 to 0.9 MB at the top, measured, with more names for objects.
OF_TOP: dict[str, tuple[dict[str, Any], Any]] = {
    "a format": ({"format": "uri-reference"}, "a" * 880_000),
    "a pattern": ({"pattern": "^[a-z]*$"}, "a" * 880_000),
    "JSON in a text": ({"contentMediaType": "application/json"}, "0" * 60_000),
    "required names": ({"required": NAMES}, dict.fromkeys(NAMES, 0)),
    "fields": ({"properties": dict.fromkeys(NAMES, True)}, dict.fromkeys(NAMES, 0)),
    "names that depend": ({"dependencies": {"f1": NAMES}}, dict.fromkeys(NAMES, 0)),
    "items": ({"items": [True] * 10_000}, [0] * 90_000),
}


@pytest.mark.parametrize(("keyword", "payload"), OF_TOP.values(), ids=list(OF_TOP))
def test_keywords_that_read_the_whole_payload_often_limit_its_length(
    keyword: dict[str, Any], payload: Any
) -> None:
    references = [{"$ref": "#/$defs/a"}]
    often, once = (
        SchemaCost({**DRAFT_7, "allOf": references * times, "$defs": {"a": keyword}}) for times in (1000, 5)
    )
    size = len(orjson.dumps(payload))
    assert "whole payload" in often.reason_against(payload, size)
    assert often.estimate(size) == MAX_PER_EVENT
    assert once.reason_against(payload, size) == ""
    assert often.reason_against({}, size) == ""


def texts(length: int, size: int) -> list[str]:
    """Texts of this length that are an event of about this size."""
    return ["a" * length] * (size // (length + 3))


@pytest.mark.parametrize(
    ("pattern", "accepted", "refused"),
    [
        (r"^(a?){16}(?!b)a{16}$", 10_000, 30_000),  # 0.8 ms for 20 characters, measured
        (r"(a*)*\1b", 10_000, 30_000),
        (r"^(?:(?=a)a|a)*$", 10_000, 30_000),
        (r"(\w+) \1", 100_000, 200_000),
        # A word boundary and a possessive repetition are no automata either.
        (r"(\w|a)*\bb", 10_000, 30_000),
        (r"(?:a|ab|b)*\B!", 10_000, 30_000),
        (r"(?:a*b*)*+c", 10_000, 200_000),
        # Nothing of these is tried again, or one repetition.
        (r"^(?!-)[A-Za-z0-9-]{1,63}(?<!-)$", 5_000_000, None),
        (r"^(?=.*[A-Z])(?!.*--)[^ ]+(?:x|y)*$", 900_000, None),
        (r"^(?:([0-9]{4})-\1)$", 5_000_000, None),
        (r"^[(?=]+\(\?=[a-z]*$", 5_000_000, None),
        (r"\bfoo\b", 5_000_000, None),
    ],
)
def test_a_pattern_that_tries_repetitions_again_limits_the_texts_of_events(
    pattern: str, accepted: int, refused: int | None
) -> None:
    cost = compile_schema({"items": {"pattern": pattern}}).cost
    for length in (16, 100):
        assert cost.reason_against(texts(length, accepted), accepted) == ""
    if refused:
        assert any(cost.reason_against(texts(length, refused), refused) for length in (16, 100))


#: Patterns that read the rest of a text at each of its positions: 0.2 s or more for 30,000 characters.
SCANS = [
    r"(?=.*a)b",
    r"(?!x)[ab]*c",
    r"(?!.*c)b",
    r"\b[a-z ]*c",
    r"\Ba*c",
    r"a*+c",
    r"^.*(?=.*c)d",
    r"(?<=b)[ab]*c",
    r"(?=(a+))\1c",
    r"(a)*+\B$",
]


@pytest.mark.parametrize("pattern", SCANS)
def test_a_pattern_that_reads_the_rest_of_a_text_again_limits_its_length(pattern: str) -> None:
    cost = compile_schema({"items": {"pattern": pattern}}).cost
    assert "texts" in cost.reason_against(["a" * 50_000], 50_004)
    assert cost.reason_against(["a" * 10_000], 10_004) == ""
    assert cost.reason_against(texts(100, 500_000), 500_000) == ""
    assert cost.estimate(10_004) > 1_000_000
    names = compile_schema({"patternProperties": {pattern: {}}}).cost
    assert "texts" in names.reason_against({"a" * 50_000: 1}, 50_006)


@pytest.mark.parametrize("pattern", [r"b+?c|\Ba", r"(?:b+?c|d)|\Ba"])
def test_an_alternative_that_is_read_at_each_position_limits_the_length_of_texts(pattern: str) -> None:
    cost = compile_schema({"items": {"pattern": pattern}}).cost
    assert "texts" in cost.reason_against(["a" * 50_000], 50_004)
    assert cost.reason_against(["a" * 10_000], 10_004) == ""


@pytest.mark.parametrize(
    "pattern",
    [r"^(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{8,}$", r"^[^@\s]+@[^@\s]+\.[^@\s]+$", r"^(?!.*--)[a-z-]+(?<!-)$"],
)
def test_an_anchored_pattern_takes_texts_of_every_length(pattern: str) -> None:
    assert compile_schema({"pattern": pattern}).cost.reason_against("a" * 900_000, 900_002) == ""


def test_texts_are_counted_as_often_as_they_are_checked() -> None:
    costly = {"pattern": "[ab]*a[ab]{100}c"}
    once, often = ({"items": {"allOf": [costly] * times}} for times in (1, 50))
    assert compile_schema(once).cost.max_bytes > 30 * compile_schema(often).cost.max_bytes
    named = [{"format": name} for name in ("idn-hostname", "uuid")]
    slow, fast = (compile_schema({"items": {"allOf": [each] * 500}}).cost.max_bytes for each in named)
    assert fast > 3 * slow


@pytest.mark.parametrize("keyword", ["dependentRequired", "dependencies"])
def test_dependent_fields_checked_individually_limit_the_event_size(keyword: str) -> None:
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"} if keyword == "dependencies" else {}
    schema = {"items": {keyword: {f"field_{n}": ["a"] for n in range(1000)}}}
    assert compile_schema(draft | schema).cost.max_bytes < 30_000


#: Each takes 2 to 17 s with an event of 900 KB, measured.
SHORT = {
    "true and false": {"anyOf": [*[False] * 3000, True]},
    "dependent fields": {"dependentSchemas": {f"field_{n}": True for n in range(1000)}},
    "patterns of names": {"patternProperties": {f"field_{n}": True for n in range(3000)}},
    "a list of two types": {"enum": [*(f"name_{n}" for n in range(3000)), 1]},
    "integers that divide": {"anyOf": [{"multipleOf": 7}] * 700},
    "nested unique items": {"allOf": [{"uniqueItems": True}] * 1000},
}


@pytest.mark.parametrize("schema", SHORT.values(), ids=list(SHORT))
def test_short_keywords_that_are_checked_often_limit_the_size_of_events(schema: dict[str, Any]) -> None:
    assert compile_schema({"items": schema}).cost.max_bytes < 40_000


def test_patterns_of_names_are_compared_again_to_find_unevaluated_fields() -> None:
    names = {"patternProperties": {f"field_{n}": {} for n in range(2000)}}
    once, again = (
        compile_schema({"items": {**names, **more}}).cost.max_bytes
        for more in ({}, {"unevaluatedProperties": False})
    )
    assert once > 2 * again


#: Schemas of items, numbers that take 0.1 to 40 s in an event of 900 KB (measured), and usual numbers.
NUMBERS: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "a bound": ({"minimum": 0.01}, [5e-324] * 13_000, [0.25] * 180_000),
    "a constant": ({"const": 5}, [5e-324] * 10_100, [5] * 400_000),
    "integers": ({"enum": [*range(100)]}, [0.5] * 2_100, [7] * 400_000),
    "fractions": ({"enum": [n + 0.5 for n in range(100)]}, [0.5] * 2_100, [0.5] * 1_900),
    "a tiny fraction": ({"enum": [5e-324]}, [7] * 13_000, [7] * 12_000),
    "objects": ({"enum": [{"a": n + 0.5} for n in range(100)]}, [{"a": 0.5}] * 2_100, ["a"] * 10_000),
    "multiples": ({"multipleOf": 0.01}, [1e308] * 5_001, [1e308] * 4_999 + [0.5] * 9_000),
    "unique items": ({"uniqueItems": True}, [[5e-324, 1e-323]] * 1_500, [[0.25, 0.5]] * 40_000),
    "unique integers": ({"items": {"uniqueItems": True}}, [2**63 + 1] * 501, [-(2**63)] * 40_000),
    "a union": (
        {"anyOf": [{"properties": {"n": {"const": n}}} for n in range(1, 51)]},
        [{"n": 1e-99}] * 201,
        [{"n": 1}] * 2_000,
    ),
    "integers one by one": ({"oneOf": [{"const": n} for n in range(100)]}, [7] * 40_000, [7] * 20_000),
    "whole bounds": ({"allOf": [{"minimum": -1e300}] * 100}, [7] * 60_000, [7] * 40_000),
    "whole multiples": ({"anyOf": [{"multipleOf": 7.0}] * 100}, [7] * 40_000, [7] * 20_000),
}


@pytest.mark.parametrize(("schema", "slow", "usual"), NUMBERS.values(), ids=list(NUMBERS))
def test_numbers_that_are_compared_for_long_are_refused(
    schema: dict[str, Any], slow: list[Any], usual: list[Any]
) -> None:
    cost = compile_schema({"properties": {"x": {"items": schema}}}).cost
    assert "comparing its numbers" in cost.reason_against(
        {"x": slow}, min(len(orjson.dumps(slow)), cost.max_bytes)
    )
    assert cost.reason_against({"x": usual}, len(orjson.dumps(usual))) == ""


def test_schemas_without_such_comparisons_take_every_number() -> None:
    plain = {"minimum": 1, "maximum": 5.0, "multipleOf": 7, "enum": ["a", None, True], "uniqueItems": False}
    cost = compile_schema({"properties": {"x": {"items": plain}}}).cost
    assert cost.reason_against({"x": [5e-324] * 150_000}, 900_000) == ""


def test_references_to_json_schema_itself_limit_the_size_of_events() -> None:
    """It refers to itself: each member of an event is checked by it too."""
    itself = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    often, once = (compile_schema({"allOf": [itself] * times}).cost.max_bytes for times in (50, 1))
    assert often < 50_000
    assert once > 900_000


def test_a_multiple_of_a_fraction_limits_the_size_of_events() -> None:
    def limit(divisor: float) -> int:
        return compile_schema({"items": {"multipleOf": divisor}}).cost.max_bytes

    # The validator takes 3 to 9 µs for each value, and twenty times as long below 1e-20.
    assert 100_000 < limit(0.01) < 300_000
    assert limit(1e-300) < 20_000
    assert min(limit(2.0), limit(7)) > 1_000_000


def test_costly_schema_reports_only_the_first_fault() -> None:
    schema = compile_schema({"items": {"allOf": [{"type": "string"}] * 2000}})
    told = faults(schema, list(range(2000)), 9000)
    assert told == [{"pointer": "/payload/0", "detail": "expected type string"}]
    few = compile_schema({"items": {"type": "string"}})
    assert len(faults(few, list(range(20)), 90)) == 20


def test_alternatives_that_could_have_too_many_faults_are_told_without_the_place() -> None:
    """A fault of `anyOf` contains those of each alternative: of 450,000 numbers 0.8 GB, in 5 s (measured)."""
    texts_or_null = {"anyOf": [{"type": "array", "items": STRING}, {"type": "null"}]}
    schema = compile_schema({"properties": {"x": texts_or_null}})
    [unplaced] = faults(schema, {"x": [0] * 30_000}, 60_006)
    assert unplaced == {
        "pointer": "/payload",
        "detail": "does not satisfy the schema; the event has too many values to find the place",
    }
    few = {"x": [0, "x" * 60_000]}
    assert faults(schema, few, 60_013) == [{"pointer": "/payload/x", "detail": "does not satisfy anyOf"}]
    plain = compile_schema({"items": STRING})
    assert [each["pointer"] for each in faults(plain, [0] * 30_000, 60_000)] == ["/payload/0"]


@pytest.mark.parametrize(
    "long",
    [{"enum": [f"k{n}" for n in range(2000)]}, {"const": "x" * 10_000}, {"not": {"enum": [0, "x" * 10_000]}}],
)
def test_long_lists_of_values_are_repeated_in_one_fault(long: dict[str, Any]) -> None:
    """Each fault has a copy of the list: 8,000 faults with 10,000 names each take 4 GB (measured)."""
    schema = compile_schema({"items": long})
    assert len(faults(schema, [0] * 8000, 16_000)) == 1
    assert len(faults(schema, [0] * 20, 40)) == 20


def test_faults_that_repeat_the_whole_object_are_not_all_built() -> None:
    """The fault of each name has a copy of the object: of 10,000 names 40 s, measured."""
    schema = compile_schema({"propertyNames": {"enum": ["a"]}})
    many, few = ({f"b{n}": 1 for n in range(times)} for times in (1500, 50))
    assert len(faults(schema, many, 15_000)) == 1
    assert len(faults(schema, few, 500)) == 50
    [unplaced] = faults(compile_schema({"oneOf": [schema.document]}), many, 15_000)
    assert "too many values" in unplaced["detail"]
