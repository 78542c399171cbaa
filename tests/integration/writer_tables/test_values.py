"""Values in columns of every type: stored exactly, or parked with a reason that contains no value."""

from typing import Any

import pytest

from tests.integration.writer_tables.conftest import Tables, states

SECRET = "s3cretValue"


def one(tables: Tables, kind: str, text: str) -> Any:
    """What becomes of one JSON value in a column of this type: its text in the table, or the reason."""
    tables.bench.execute(
        "CREATE TYPE public.mood AS ENUM ('sad', 'happy'); CREATE DOMAIN public.short AS varchar(3);"
        "CREATE DOMAIN public.positive AS int CHECK (VALUE > 0); CREATE TYPE public.pair AS (a int, b int);"
        f"CREATE TABLE public.t (id int PRIMARY KEY, v {kind})"
    )
    done = tables.land("t", b'{"id":1,"v":%b}' % text.encode(), {"id": 2})
    (count,) = done.landed.values()
    if done.parked:
        assert count == 1, "the neighbour lands"
        (reason,) = states(done)
        assert "column v" in reason or "constraint" in reason
        assert SECRET not in reason
        return reason.partition("SQLSTATE ")[2][:5]
    assert count == 2
    return tables.bench.one("SELECT v::text FROM public.t WHERE id = 1")


@pytest.mark.parametrize(
    ("kind", "text", "lands"),
    [
        ("int", "42", "42"),
        ("int", '"42"', "42"),
        ("int", "4.20e1", "42"),
        ("int", "null", None),
        ("bigint", "9223372036854775807", "9223372036854775807"),
        ("numeric", "1.50", "1.50"),
        ("numeric", "0.1234567890123456789012345", "0.1234567890123456789012345"),
        ("numeric(5,2)", "1.500", "1.50"),
        ("numeric(5,2)", "123", "123.00"),
        ("double precision", "1.5e3", "1500"),
        ("text", '"\\\\."', "\\."),
        ("varchar(3)", '"abc"', "abc"),
        ("bool", "true", "true"),
        ("timestamptz", '"2026-11-21T08:00:00.123456+02:00"', "2026-11-21 06:00:00.123456+00"),
        ("timestamp", '"2026-11-21T08:00:00Z"', "2026-11-21 08:00:00"),
        ("date", '"2026-02-28"', "2026-02-28"),
        ("time", '"08:00:01"', "08:00:01"),
        ("uuid", '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"', "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("jsonb", '{"b":[1,{"c":null}]}', '{"b": [1, {"c": null}]}'),
        ("json", '{"b" : 1.0,"a":"\\u00e9"}', '{"b" : 1.0,"a":"\\u00e9"}'),
        ("jsonb", "[1,2]", "[1, 2]"),
        ("jsonb", '"text"', '"text"'),
        ("int[]", "[1,null,3]", "{1,NULL,3}"),
        ("int[]", "[[1,2],[3,4]]", "{{1,2},{3,4}}"),
        ("text[]", '["a\\"b","","\\\\","NULL","{,}"]', '{"a\\"b","","\\\\","NULL","{,}"}'),
        ("numeric[]", "[1.50,0.12345678901234567890]", "{1.50,0.12345678901234567890}"),
        ("jsonb[]", '[{"a":[1]},[2]]', '{"{\\"a\\": [1]}",[2]}'),
        ("public.mood", '"happy"', "happy"),
        ("public.positive", "3", "3"),
        ("bytea", '"\\\\x00ff"', "\\x00ff"),
        ("inet", '"10.0.0.1"', "10.0.0.1/32"),
        ("int4range", '"[1,5)"', "[1,5)"),
        ("interval", '"P1D"', "1 day"),
    ],
)
def test_values_land_as_they_are(tables: Tables, kind: str, text: str, lands: str | None) -> None:
    found = one(tables, kind, text)
    assert found == lands


@pytest.mark.parametrize(
    ("kind", "text", "state"),
    [
        ("text", f'"{SECRET}\\u0000"', "22021"),
        ("jsonb", f'{{"a":"{SECRET}\\u0000"}}', "22P05"),
    ],
)
def test_nul(tables: Tables, kind: str, text: str, state: str) -> None:
    assert one(tables, kind, text) == state


@pytest.mark.parametrize("text", ["\\.", "a\tb", "a\r\nb", "\\", "\\N", "", "NULL", "'", '"', "é€😀"])
def test_text_is_byte_exact(tables: Tables, text: str) -> None:
    tables.bench.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text, a text[], j jsonb)")
    tables.land("t", {"id": 1, "v": text, "a": [text], "j": {"k": text}})
    assert tables.bench.rows("SELECT v, a, j->>'k' FROM public.t") == [(text, [text], text)]


@pytest.mark.parametrize(
    ("kind", "text", "state"),
    [
        ("int", "2147483648", "22003"),
        ("int", '"1e30"', "22003"),
        ("int", "1.5", "22P02"),
        ("int", '""', "22P02"),
        ("int", f'"{SECRET}"', "22P02"),
        ("int", "true", "42804"),
        ("bool", "1", "42804"),
        ("bool", '"yes"', "42804"),
        ("text", "5", "42804"),
        ("text", "true", "42804"),
        ("uuid", "5", "42804"),
    ],
)
def test_json_of_another_type(tables: Tables, kind: str, text: str, state: str) -> None:
    assert one(tables, kind, text) == state


@pytest.mark.parametrize(
    ("kind", "text", "state"),
    [
        ("numeric(5,2)", "1000", "22003"),
        ("numeric(5,2)", "1.005", "22003"),
        ("numeric(5,2)", '"1.005"', "22003"),
        ("numeric(5,2)", "1e-3", "22003"),
        ("numeric(5,2)", '"1e-99999999999999999999"', "22003"),
        ("numeric(5,2)", '"1e99999999999999999999"', "22003"),
        ("numeric", '"1e99999999999999999999"', "22003"),
        ("numeric", '"NaN"', "22P02"),
        ("double precision", '"Infinity"', "22P02"),
        ("real", "1e39", "22003"),
        ("numeric[]", '["NaN"]', "22P02"),
    ],
)
def test_numbers_are_neither_rounded_nor_nan(tables: Tables, kind: str, text: str, state: str) -> None:
    assert one(tables, kind, text) == state


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("varchar(3)", '"abcd"'),
        ("varchar(3)", '"abc "'),
        ("char(3)", '"abc "'),
        ("public.short", '"abcd"'),
        ("varchar(3)[]", '["abcd"]'),
        ("name", f'"{"x" * 64}"'),
        ('"char"', '"ab"'),
    ],
)
def test_no_silent_cut(tables: Tables, kind: str, text: str) -> None:
    assert one(tables, kind, text) == "22001"


@pytest.mark.parametrize(
    ("kind", "text", "state"),
    [
        ("timestamptz", "10000-01-01T00:00:00Z", "22008"),
        ("date", "10000-01-01", "22008"),
        ("date", "0044-03-15 BC", "22007"),
        ("timestamptz", "infinity", "22007"),
        ("date", "-infinity", "22007"),
        ("timestamptz", "now", "22007"),
        ("timestamptz", "tomorrow", "22007"),
        ("date", "today", "22007"),
        ("timestamp", "epoch", "22007"),
        ("time", "allballs", "22007"),
        ("tstzrange", "[now,tomorrow)", "22007"),
        ("interval", "infinity", "22007"),
        ("timestamptz", "2026-11-21T08:00:00", "22007"),
        ("timestamp", "2026-11-21T08:00:00+02:00", "22007"),
        ("date", "01/02/2003", "22007"),
        ("timestamptz", "2026-11-21T08:00:60Z", "22007"),
        ("timestamptz", "2026-11-21T08:00:00.123456789Z", "22008"),
        ("timestamptz(0)", "2026-11-21T08:00:00.5Z", "22008"),
        ("timestamptz", "2026-02-30T00:00:00Z", "22008"),
        ("timestamptz", "294277-01-01T00:00:00Z", "22008"),
    ],
)
def test_to_w30_times_are_strict(tables: Tables, kind: str, text: str, state: str) -> None:
    assert one(tables, kind, f'"{text}"') == state


@pytest.mark.parametrize("kind", ["timestamptz[]", "date[]"])
def test_words_are_no_times_in_arrays_either(tables: Tables, kind: str) -> None:
    assert one(tables, kind, '["now"]') == "22007"


@pytest.mark.parametrize(
    ("kind", "text", "state"),
    [
        ("uuid", f'"{SECRET}"', "22P02"),
        ("bytea", '"\\\\xzz"', "22023"),
        ("bytea", f'"{SECRET}"', "22P02"),
        ("public.mood", f'"{SECRET}"', "22P02"),
        ("public.positive", "-1", "23514"),
        ("inet", f'"{SECRET}"', "22P02"),
        ("int[]", "[[],[]]", "22P02"),
    ],
)
def test_bad_forms(tables: Tables, kind: str, text: str, state: str) -> None:
    assert one(tables, kind, text) == state


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "{}"),
        ("text", '{"a":1}'),
        ("text", "[1]"),
        ("int[]", "{}"),
        ("int[]", '"{1,2}"'),
        ("public.pair", "{}"),
        ("public.pair", '"(1,2)"'),
    ],
)
def test_objects_and_arrays_do_not_go_into_scalars(tables: Tables, kind: str, text: str) -> None:
    assert one(tables, kind, text) == "42804"


def test_types_within_types_are_checked_to_the_end(tables: Tables) -> None:
    tables.bench.execute(
        "CREATE DOMAIN public.cents AS numeric(5,2); CREATE DOMAIN public.price AS public.cents;"
        "CREATE DOMAIN public.short AS varchar(3); CREATE DOMAIN public.moment AS timestamptz;"
        "CREATE DOMAIN public.prices AS public.price[]; CREATE TYPE public.spans AS RANGE (subtype = float8);"
        "CREATE DOMAIN public.span AS public.spans; CREATE DOMAIN public.number AS oid;"
        "CREATE TABLE public.t (id int PRIMARY KEY, prices public.price[], nested public.prices[],"
        " short public.short[], moments public.moment[], spans public.span[], many int4multirange,"
        " number public.number, amounts numeric(5,2)[], words varchar(3)[])"
    )
    values = {
        "prices": ("[1.50,null]", "[1.005]", "22003"),
        "short": ('["abc"]', '["abc "]', "22001"),
        "moments": ('["2026-01-01T00:00:00Z"]', '["now"]', "22007"),
        "spans": ('["[0.5,1)"]', '["[9007199254740993,)"]', "22003"),
        "many": ('"{[1,2),[4,5)}"', '"{[a,2)}"', "22P02"),
        "number": ("4294967295", "-1", "22003"),
        "amounts": ("[1.5]", "[1.005]", "22003"),
        "words": ('["abc"]', '["abc "]', "22001"),
    }
    good = [(b'"%b":%b' % (name.encode(), good.encode())) for name, (good, _, _) in values.items()]
    bad = [(b'"%b":%b' % (name.encode(), bad.encode())) for name, (_, bad, _) in values.items()]
    done = tables.land("t", *(b'{"id":%d,%b}' % (n, text) for n, text in enumerate([*bad, b",".join(good)])))
    assert [reason.partition("SQLSTATE ")[2][:5] for reason in states(done)] == [
        v[2] for v in values.values()
    ]
    assert tables.bench.rows(
        "SELECT id, prices::text, short::text, moments::text, spans::text, many::text, number::text,"
        " amounts::text, words::text FROM public.t"
    ) == [
        (
            len(bad),
            "{1.50,NULL}",
            "{abc}",
            '{"2026-01-01 00:00:00+00"}',
            '{"[0.5,1)"}',
            "{[1,2),[4,5)}",
            "4294967295",
            "{1.50}",
            "{abc}",
        )
    ]
