from pathlib import Path
from typing import Any

import pytest

from shared.contracts.tables import columns_of
from shared.lake.lake_tables import Kind, Property, column_names, properties_of
from shared.lake.storage import Storage

STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ({"type": "string"}, Kind.STRING),
        ({"type": ["string", "null"], "format": "date-time"}, Kind.TIME),
        ({"type": "integer"}, Kind.INTEGER),
        ({"type": ["integer", "number"]}, Kind.NUMBER),
        ({"type": "boolean"}, Kind.BOOLEAN),
        ({"type": ["string", "integer"]}, None),
        ({"type": "object"}, None),
        ({"type": "null"}, None),
        ({"enum": [1]}, None),
        (True, None),
    ],
)
def test_properties_of_one_simple_type_have_a_typed_column(declared: object, kind: Kind | None) -> None:
    expected = (Property("x", kind),) if kind else ()
    assert properties_of({"properties": {"x": declared}}) == expected


_ORDER: dict[str, Any] = {"properties": {"n": {"type": "integer"}, "at": {"format": "date-time", **STRING}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Order", "$defs": {"Order": _ORDER}},
        {
            "properties": {"n": {"minimum": 0}},
            "allOf": [{"$ref": "#/$defs/Order"}],
            "$defs": {"Order": _ORDER},
        },
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/definitions/Order",
            "properties": {"of_no_effect": STRING},
            "definitions": {"Order": _ORDER},
        },
    ],
)
def test_properties_of_a_reference_and_of_all_of_are_the_columns_of_create_true(
    schema: dict[str, Any],
) -> None:
    properties = properties_of(schema)
    assert properties == (Property("at", Kind.TIME), Property("n", Kind.INTEGER))
    assert {each.name for each in properties} == {column.name for column in columns_of(schema)}


def test_a_schema_with_thousands_of_properties_has_a_bounded_number_of_columns() -> None:
    assert len(properties_of({"properties": {f"x{i}": {"type": "string"} for i in range(10_000)}})) == 500


def test_hostile_names_get_distinct_safe_columns() -> None:
    names = ["origin", "Origin", "a.b", "a b", "", "select", "x" * 300, "ü", "a;b\n", "p_x"]
    columns = column_names(names, ["_id", "payload"])
    assert columns["select"] == "p_select"
    assert columns["Origin"] == "p_Origin"
    assert len({each.casefold() for each in columns.values()}) == len(names)
    assert all(each.isascii() and each.replace("_", "").isalnum() for each in columns.values())
    assert max(map(len, columns.values())) < 64


def test_a_later_property_that_is_equal_but_for_case_does_not_take_the_column() -> None:
    before = column_names(["origin"], [])
    after = column_names(["Origin", "origin"], list(before.values()))
    assert after["origin"] == "p_origin"
    assert after["Origin"].startswith("p_origin_")


def test_credentials_are_reloaded_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    storage = Storage(url="s3://lake/onramp", endpoint="http://127.0.0.1:1", credentials_file=file)
    for secret in ("one", "two"):
        file.write_text(f"access_key_id=me\nsecret_access_key={secret}\n")
        assert storage.options()["AWS_SECRET_ACCESS_KEY"] == secret
    assert storage.options()["AWS_ALLOW_HTTP"] == "true"
    assert storage.table_url("flights") == "s3://lake/onramp/flights"
    assert "hush" not in repr(Storage(url="s3://x", access_key_id="a", secret_access_key="hush"))
