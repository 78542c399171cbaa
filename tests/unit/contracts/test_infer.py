"""An inferred schema accepts each of its samples, and requires what all of them have."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.contracts.infer import Samples
from shared.contracts.json_schema import compile_schema
from tests.unit.contracts.generated import Generator

MOMENT, DAY, UUID = "2026-01-02T03:04:05.5+01:00", "2026-01-02", "0b7c4e1e-5f3a-4c68-9a53-0f1d0c2a9a11"


def schema_of(*samples: Any) -> dict[str, Any]:
    found = Samples()
    for sample in samples:
        found.add(sample)
    return found.schema()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_it_takes_every_sample(seed: int) -> None:
    make = Generator(seed)
    for _ in range(10):
        samples = [make.value(3) for _ in range(4)]
        validator = compile_schema(schema_of(*samples))
        assert all(validator.is_valid(sample) for sample in samples), samples


def test_field_present_in_every_sample_is_required_and_has_its_common_format() -> None:
    first = {"id": UUID, "at": MOMENT, "on": DAY, "note": DAY, "n": 1, "lines": [{"price": 1}]}
    second = first | {"note": "soon", "n": None, "more": True, "lines": [{"price": 1.5}, {}]}
    assert schema_of(first, second) == {
        "type": "object",
        "required": ["id", "at", "on", "note", "n", "lines"],
        "properties": {
            "id": {"type": "string", "format": "uuid"},
            "at": {"type": "string", "format": "date-time"},
            "on": {"type": "string", "format": "date"},
            "note": {"type": "string"},
            "n": {"type": ["integer", "null"]},
            "lines": {
                "type": "array",
                "items": {"type": "object", "properties": {"price": {"type": "number"}}},
            },
            "more": {"type": "boolean"},
        },
    }


def test_text_that_only_resembles_a_format_has_no_format() -> None:
    for text in (
        "2026-02-30",
        "2026-01-02T03:04:05",
        "2026-13-01T00:00:00Z",
        "20260102",
        UUID[:-1],
        "",
        DAY + "\n",
    ):
        assert schema_of(text) == {"type": "string"}, text


def test_an_object_with_values_as_names_is_a_map() -> None:
    assert schema_of({f"customer-{n}": 1 for n in range(501)}, {"a": 1}) == {"type": "object"}
    assert schema_of() == {}
