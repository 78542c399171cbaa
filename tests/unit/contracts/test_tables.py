"""The DDL of a type's table: every type of field, and names that would be other SQL."""

from typing import Any

import pytest

from shared.contracts.created_tables import with_limits
from shared.contracts.json_schema import compile_schema
from shared.contracts.tables import FieldColumn, add_column, columns_of, create_table, quoted

FIELDS: dict[str, Any] = {
    "whole": {"type": "integer"},
    "part": {"type": "number"},
    "text": {"type": "string", "description": "it's \\ said"},
    "flag": {"type": "boolean"},
    "at": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "uid": {"type": "string", "format": "uuid"},
    "mail": {"type": "string", "format": "email"},
    "or_null": {"type": ["null", "integer"]},
    "either": {"type": ["string", "integer"]},
    "inner": {"type": "object"},
    "list": {"type": "array"},
    "any": {},
    "sure": True,
    "ref": {"$ref": "#/$defs/x"},
}


def test_each_type_has_its_column_and_required_is_not_null_unless_null_is_taken() -> None:
    columns = columns_of({"properties": FIELDS, "required": ["whole", "or_null", "any", "ref"]})
    assert {c.name: c.type for c in columns} == {
        "whole": "bigint", "part": "numeric", "text": "text", "flag": "boolean", "at": "timestamptz",
        "day": "date", "uid": "uuid", "mail": "text", "or_null": "bigint", "either": "jsonb",
        "inner": "jsonb", "list": "jsonb", "any": "jsonb", "sure": "jsonb", "ref": "jsonb",
    }  # fmt: skip
    assert [c.name for c in columns if c.is_required] == ["whole"]


ORDER: dict[str, Any] = {
    "type": "object",
    "required": ["n"],
    "properties": {"n": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}},
}
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Order", "$defs": {"Order": ORDER}},
        {"$ref": "#/definitions/Order", "definitions": {"Order": ORDER}, **DRAFT_7},
        {
            "allOf": [{"properties": {"n": {"minimum": 0}}}, {"$ref": "#/$defs/Order"}],
            "$defs": {"Order": ORDER},
        },
        {"required": ["n"], "properties": {"n": {}}, "allOf": [{"allOf": [ORDER]}]},
    ],
)
def test_fields_of_a_reference_and_of_all_of_have_columns_and_their_limits(schema: dict[str, Any]) -> None:
    columns = {column.name: column for column in columns_of(schema)}
    assert {name: column.type for name, column in columns.items()} == {"n": "bigint", "at": "timestamptz"}
    compiled = compile_schema(with_limits(schema))
    for value, is_valid in (
        ({"n": 1}, True),
        ({"n": 2**63}, False),
        ({"n": 1, "at": "2026-01-01T00:00:00.1234567Z"}, False),
        ({"at": "2026-01-01T00:00:00Z"}, False),
        ({"n": "1"}, False),
    ):
        assert compiled.is_valid(value) is is_valid, value


def test_limits_of_texts_and_numbers_accept_null() -> None:
    fields = {
        name: FIELDS[name] | {"type": [FIELDS[name]["type"], "null"]} for name in ("at", "day", "whole")
    }
    compiled = compile_schema(with_limits({"properties": fields}))
    assert compiled.is_valid(dict.fromkeys(fields))


def test_keywords_that_a_draft_ignores_have_no_columns() -> None:
    ignored = {"properties": {"other": {}}, "additionalProperties": False}
    schema = {"$ref": "#/definitions/Order", "definitions": {"Order": ORDER}, **DRAFT_7, **ignored}
    assert [column.name for column in columns_of(schema)] == ["n", "at"]
    assert compile_schema(with_limits(schema)).is_valid({"n": 1})
    assert columns_of({"$ref": "#", "allOf": [{"$ref": "#"}, {"$ref": "#/nowhere"}, True]}) == []


def test_the_table_has_the_key_and_the_receipt_and_comments() -> None:
    columns = columns_of({"properties": {"text": FIELDS["text"]}, "required": ["text"]})
    ddl = create_table("shop", "orders", columns)
    assert ddl.startswith('CREATE TABLE "shop"."orders" (\n  _id text PRIMARY KEY,\n')
    assert "_offset bigint NOT NULL,\n" in ddl
    assert '  "text" text NOT NULL\n);\n' in ddl
    assert "payload" not in ddl
    assert ddl.endswith("""COMMENT ON COLUMN "shop"."orders"."text" IS E'it''s \\\\ said';""")


def test_a_column_that_comes_later_is_nullable() -> None:
    column = FieldColumn("note", "text", is_required=True)
    assert add_column("shop", "orders", column) == 'ALTER TABLE "shop"."orders" ADD COLUMN "note" text;'


@pytest.mark.parametrize("name", ['a"; DROP TABLE x; --', "Orders", "e\u0301", "\u0430", "a.b", " ", "a\nb"])
def test_a_strange_name_is_one_identifier(name: str) -> None:
    assert quoted(name)[1:-1].replace('""', '"') == name
    assert f"{quoted(name)} jsonb" in create_table("s", "t", columns_of({"properties": {name: {}}}))


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 64, "é" * 32, "_id", "_offset"])
def test_a_name_that_no_column_can_have_is_refused_by_its_place(name: str) -> None:
    with pytest.raises(ValueError, match="field 2 of the schema"):
        columns_of({"properties": {"a": {}, name: {}}})
