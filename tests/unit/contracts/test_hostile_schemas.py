"""Schemas that would read files, exhaust the stack or run a pattern for minutes: refused, or bounded."""

from typing import Any

import jsonschema_rs
import pytest

from shared.contracts.faults import faults
from shared.contracts.json_schema import compile_schema
from shared.registry import Snapshot

#: Each needs more steps than anybody can wait for, with an engine that steps back without a bound.
CATASTROPHIC = [r"^(?:a?){30}a{30}(?=$)\b!", r"(a*)*\1b$", r"(a|aa)+(?<!x)$\b!"]


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.parametrize("place", ["http://127.0.0.1:1/x", "file:///etc/passwd", "https://example.com/x#/y"])
def test_a_reference_to_another_document_is_not_followed(place: str) -> None:
    with pytest.raises(ValueError, match="may not refer to another document"):
        compile_schema({"properties": {"a": {"$ref": place}}})


def test_depth_is_refused_by_its_place() -> None:
    with pytest.raises(ValueError, match=r"a\.schema\n.*nested deeper than 100"):
        Snapshot.model_validate({"event_types": {"a": {"schema": nested(1000)}}})


def test_a_schema_of_a_megabyte_is_one() -> None:
    schema = {"enum": ["x" * 1_000_000]}
    Snapshot.model_validate({"event_types": {"a": {"schema": schema}}})
    assert not compile_schema(schema).is_valid("x")


def test_pattern_over_the_backtrack_limit_is_stopped() -> None:
    [error] = compile_schema({"pattern": r"(\w+) \1"}).validator.iter_errors("a" * 500)
    assert isinstance(error.kind, jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded)


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_catastrophic_pattern_is_stopped_and_the_fault_has_its_pointer(pattern: str) -> None:
    schema = {"properties": {"name": {"type": "string", "pattern": pattern}}}
    compiled = compile_schema(schema)
    payload = {"name": "a" * 40 + "!"}
    [error] = compiled.validator.iter_errors(payload)
    assert isinstance(error.kind, jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded)
    [fault] = faults(compiled, payload, 50)
    assert fault == {"pointer": "/payload/name", "detail": f"expected pattern {pattern}"}


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 100_000),
        ("^(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9 ]+$", "Abc1 " * 20_000),
        (r"^(?!.*forbidden).*$", "allowed " * 20_000),
        (r"^(\w+) \1$", "word word"),
    ],
)
def test_patterns_of_every_day_are_within_the_bound(pattern: str, text: str) -> None:
    assert compile_schema({"type": "string", "pattern": pattern}).is_valid(text)


@pytest.mark.parametrize(
    ("schema", "payload", "fault"),
    [
        ({"additionalProperties": False}, {"a": 1}, ("", "no field is allowed here")),
        ({"properties": {"a": False}}, {"a": 1}, ("/a", "no value is allowed here")),
        # Fields that are called like keywords.
        *(
            ({"properties": {name: False}}, {name: 1}, (f"/{name}", "no value is allowed here"))
            for name in ("required", "properties", "additionalProperties", "format")
        ),
        ({"$defs": {"required": False}, "$ref": "#/$defs/required"}, {}, ("", "no value is allowed here")),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": False}}, {"a": {}}, ("/a", "no value")),
        ({"anyOf": [False, False]}, {}, ("", "does not satisfy anyOf")),
        ({"not": True}, {}, ("", "")),
    ],
)
def test_value_refused_by_a_false_schema_has_its_pointer_in_the_fault(
    schema: Any, payload: Any, fault: tuple[str, str]
) -> None:
    [found] = faults(compile_schema(schema), payload, 50)
    assert found["pointer"] == f"/payload{fault[0]}"
    assert found["detail"].startswith(fault[1])
