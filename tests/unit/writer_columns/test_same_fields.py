"""Rows of one layout, parsed as columns, give the same values as each parsed alone."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.writer.columns import same_fields
from services.writer.columns.catalog import Key, Table
from services.writer.columns.column_types import Column, Type
from services.writer.columns.json_to_text import MisfitError, as_texts
from services.writer.columns.values_to_text import texts_of
from services.writer.model.targets import Target
from services.writer.persist import landing_tables, typed_fields, typed_rows
from tests.fixtures.examples import examples

_HEADER = 4


def _type(name: str, category: str, modifier: int = -1, element: Type | None = None) -> Type:
    return Type("pg_catalog", name, category, modifier, element=element)


def _numeric(precision: int, scale: int) -> Type:
    return _type("numeric", "N", _HEADER + (precision << 16 | scale & 0x7FF))


TYPES = {
    "text": _type("text", "S"),
    "varchar3": _type("varchar", "S", _HEADER + 3),
    "name": _type("name", "S"),
    "char1": _type("char", "S"),
    "bigint": _type("int8", "N"),
    "numeric": _type("numeric", "N"),
    "cents": _numeric(10, 2),
    "hundreds": _numeric(10, -2),
    "double": _type("float8", "N"),
    "real": _type("float4", "N"),
    "money": _type("money", "N"),
    "bool": _type("bool", "B"),
    "jsonb": _type("jsonb", "U"),
    "bytea": _type("bytea", "U"),
    "timestamptz": _type("timestamptz", "D"),
    "timestamp0": _type("timestamp", "D", 0),
    "date": _type("date", "D"),
    "time3": _type("time", "D", 3),
    "timetz": _type("timetz", "D"),
    "interval": _type("interval", "T"),
    "tstzrange": _type("tstzrange", "R", element=_type("timestamptz", "D")),
    "int4range": _type("int4range", "R", element=_type("int4", "N")),
    "oid": _type("oid", "N"),
    "xid8": _type("xid8", "U"),
    "uuid": _type("uuid", "U"),
    "integers": _type("_int4", "A", element=_type("int4", "N")),
    "pair": Type("public", "pair", "C"),
}
STRINGS = [
    "",
    "a",
    "abcd",
    "äöü",
    "\N{SNOWMAN}" * 40,
    "NaN",
    "null",
    "12.50",
    "1e5",
    "true",
    "2026-11-21",
    "2026-11-21T08:00:00Z",
    "2026-11-21T08:00:00.000Z",
    "2026-11-21T08:00:00.1234567+02:00",
    "2026-11-21 08:00:00.123456-02:30",
    "12026-11-21T08:00:00Z",
    "9999-12-31T23:59:59-08:00",
    "0001-01-01T00:00:00+14:00",
    "9999-02-30T00:00:00Z",
    "08:00:01.1234",
    "08:00:01.123\n",
    "08:00:01+01:00",
    "1.5 days",
    "3 days 1.5 seconds",
    "[now,infinity)",
    "[1,5)",
    "(,)",
    "\\x00ff",
    'a "quoted" text',
    "tab\tand\0nul",
    ',"b":',
    "{1,2}",
]
NUMBERS = [
    *("0", "-0", "7", "-70", "120", "1.25", "-0.125", "0.10", "1.0", "16777217", "9007199254740993"),
    *("9223372036854775807", "9223372036854775808", "18446744073709551615", "-9223372036854775808"),
    *(
        "0.1234567890123456789",
        "1e5",
        "1E3",
        "100e-2",
        "-1.0",
        "1E-7",
        "-2.5e+3",
        "1e300",
        "1e-400",
        "0.000",
        "123456789012345.678",
    ),
]
OTHERS = [
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "[1,2]",
    "[1, [2, null]]",
    '["a"]',
    '{"b":1}',
    '{"b":{},"c":2}',
]

_values = (
    st.sampled_from([json.dumps(s, ensure_ascii=False) for s in STRINGS])
    | st.sampled_from(NUMBERS)
    | st.sampled_from(OTHERS)
    | st.text().map(lambda s: json.dumps(s, ensure_ascii=False))
    | st.integers(-(2**63), 2**64 - 1).map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
)
_values = _values.filter(lambda text: text.encode(errors="replace").decode() == text)


@pytest.mark.parametrize("of", TYPES.values(), ids=TYPES)
@settings(deadline=None, max_examples=examples(20))
@given(values=st.lists(_values, min_size=1, max_size=20))
def test_a_column_of_values_is_judged_as_each_of_them_alone(of: Type, values: list[str]) -> None:
    quoted = [v for v in values if v.startswith('"') and "\\" not in v]
    bare = [v for v in values if '"' not in v]
    for is_text, some in ((True, quoted), (False, bare)):
        if not some:
            continue
        column = pa.array([(v[1:-1] if is_text else v).encode() for v in some], pa.binary())
        texts, misfits = texts_of(of, column, quoted=is_text)
        alone = [as_texts(of, [msgspec.Raw(v.encode())]) for v in some]
        assert texts.to_pylist() == [text for (text,), _ in alone]
        assert {i: _said(m) for i, m in misfits.items()} == {
            i: _said(m[0]) for i, (_, m) in enumerate(alone) if m
        }


def _said(misfit: MisfitError) -> tuple[str, str]:
    return misfit.sqlstate, misfit.reason


COLUMNS = {name: Column(name, False, False, name, type=of) for name, of in TYPES.items()}
COLUMNS |= {"id": Column("id", False, False, "text", type=TYPES["text"])}
TARGET = Target("onramp", "public", "t", typed=True)
_separators = st.sampled_from([(",", ":"), (", ", ": "), (",\n ", " : "), (" ,", ":")])


def _written(values: dict[str, str], separators: tuple[str, str]) -> str:
    comma, colon = separators
    return "{%s}" % comma.join(f'"{name}"{colon}{value}' for name, value in values.items())  # noqa: UP031


def _objects(names: Sequence[str]) -> st.SearchStrategy[list[str]]:
    """Objects with these fields, in the same spelling or not."""
    fields = st.fixed_dictionaries(dict.fromkeys(names, _values))
    written = st.builds(_written, fields, _separators)
    return st.lists(written, min_size=1, max_size=6)


def _rows(bodies: Sequence[str], enveloped: Sequence[bool]) -> pa.Table:
    n = len(bodies)
    given_columns: dict[str, Any] = {
        "_id": pa.array([f"e-{i}" if e else None for i, e in enumerate(enveloped)], pa.string()),
        "payload": pa.array(list(bodies), pa.string()),
    }
    arrays = [given_columns.get(f.name, pa.nulls(n, f.type)) for f in landing_tables.COLUMNS]
    return pa.table(arrays, schema=landing_tables.COLUMNS)


def _told(prepared: typed_rows.Prepared) -> Any:
    groups = [(g.spec, list(g.row_indices), [c.to_pylist() for c in g.columns]) for g in prepared.groups]
    return groups, dict(prepared.rejected.items()), prepared.discarded


@settings(deadline=None, max_examples=examples(50))
@given(data=st.data())
def test_rows_in_columns_are_prepared_as_rows_one_by_one(data: st.DataObject) -> None:
    bodies: list[str] = []
    for _ in range(data.draw(st.integers(1, 3))):
        names = data.draw(st.lists(st.sampled_from([*TYPES, "unknown"]), max_size=4, unique=True))
        named = data.draw(st.permutations([*names, "id"]))
        bodies += data.draw(_objects(named))
    places = np.random.default_rng(0).integers(0, len(bodies), 100)  # so many that layouts are worth it
    enveloped = [bool(e) for e in (places % 3 if data.draw(st.booleans()) else places * 0)]
    rows = _rows([bodies[i] for i in places], enveloped)
    table = Table(COLUMNS, (Key("t_pkey", ("id",), True),), True, False)
    target = TARGET._replace(unknown_fields=data.draw(st.sampled_from(["freeze", "discard"])))
    together = _told(typed_rows.prepare(rows, target, table))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(typed_fields, "_FEW", 1_000)
        assert _told(typed_rows.prepare(rows, target, table)) == together


def _cut(like: str, *bodies: str) -> same_fields.Cut:
    layout = same_fields.layout_of(like.encode())
    assert layout is not None
    return same_fields.cut(layout, pa.array([body.encode() for body in bodies]))


def test_objects_of_one_layout_are_cut_into_columns_whatever_their_values() -> None:
    bodies = ('{"a":1,"t":"x","b":[1,2]}', '{"a":-2.5,"t":"","b":{}}', '{"a":null,"t":"äö","b":true}')
    found = _cut(bodies[0], *bodies)
    assert found.matches.all()
    assert [column.to_pylist() for column in found.columns] == [
        [b"1", b"-2.5", b"null"],
        [b"x", b"", "äö".encode()],
        [b"[1,2]", b"{}", b"true"],
    ]


@pytest.mark.parametrize(
    "other",
    [
        '{"a":1,"t":"x\\"y"}',
        '{"a":1,"t":"\\u0041"}',
        '{"a":"1","t":"x"}',
        '{"a":1,"t":null}',
        '{"a":1, "t":"x"}',
        '{"t":"x","a":1}',
        '{"a":1,"u":"x"}',
        '{"a":{"t":"x"}}',
        '{"a":1,"t":"x","b":2}',
        '{"a":[1,"t","x"]}',
        "{}",
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_object_of_another_layout_is_left_to_be_parsed(other: str, place: int) -> None:
    like = ['{"a":1,"t":"x"}', '{"a":22,"t":"yy"}']
    bodies = [*like[:place], other, *like[place:]]
    found = _cut(like[0], *bodies)
    assert found.matches.tolist() == [i != place for i in range(3)]
    assert [column.to_pylist() for column in found.columns] == [[b"1", b"22"], [b"x", b"yy"]]


@pytest.mark.parametrize("body", ["{}", '{"a":{"b":1}}', '{"a":["x"]}', '{"a":"\\\\"}', '{"\\u0061":1}'])
def test_an_object_whose_values_have_no_such_places_gives_no_layout(body: str) -> None:
    assert same_fields.layout_of(body.encode()) is None


def test_layouts_are_found_among_others_and_tried_on_the_rows_that_follow() -> None:
    """Every hundredth row has fields of its own; all others are cut, in whatever piece they come."""
    bodies = [f'{{"id":"{n}","bigint":{n}}}' if n % 100 else '{"id":{"a":1}}' for n in range(20_000)]
    parts = list(typed_fields.parts_of(pa.chunked_array([pa.array(bodies)])))
    cut = [part for part in parts if isinstance(part, typed_fields.Cut)]
    assert sorted(i for part in cut for i in part.row_indices.tolist()) == [
        n for n in range(20_000) if n % 100
    ]
    assert len(cut) == -(-20_000 // 8_192)
