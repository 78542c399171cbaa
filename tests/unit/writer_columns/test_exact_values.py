"""Values that a column would change silently are refused before the database receives them."""

import json

import msgspec
import pyarrow as pa
import pytest

from services.writer.columns.column_types import Type
from services.writer.columns.json_to_text import as_texts
from services.writer.columns.values_to_text import texts_of


def _type(name: str, category: str, modifier: int = -1, element: Type | None = None) -> Type:
    return Type("pg_catalog", name, category, modifier, element=element)


TIMESTAMPTZ = _type("timestamptz", "D")
TIMES = _type("_timestamptz", "A", element=TIMESTAMPTZ)


def outcome(of: Type, text: str) -> str | None:
    """The text that the column gets, or the SQLSTATE of the refusal: of the value alone and in a column."""
    (found,), misfits = as_texts(of, [msgspec.Raw(text.encode())])
    alone = misfits[0].sqlstate if misfits else found
    is_text = text.startswith('"')
    if "\\" not in text and (is_text or '"' not in text):
        column = pa.array([text.strip('"').encode()], pa.binary())
        texts, of_column = texts_of(of, column, quoted=is_text)
        assert (of_column[0].sqlstate if of_column else texts[0].as_py()) == alone
    return alone


@pytest.mark.parametrize(
    ("text", "is_far"),
    [
        ("9999-12-31T23:59:59-08:00", True),
        ("9999-12-31 23:59:59.5-00:01", True),
        ("0001-01-01t00:00:00+14:00", True),
        ("9999-12-31T23:59:59z", False),
        ("9999-12-31T23:59:59+08:00", False),
        ("0001-01-01T00:00:00-08:00", False),
        ("9999-02-30T00:00:00Z", False),  # Postgres refuses it
    ],
)
def test_a_time_is_within_the_years_1_to_9999_in_utc(text: str, is_far: bool) -> None:
    assert outcome(TIMESTAMPTZ, f'"{text}"') == ("22008" if is_far else text)
    assert outcome(TIMES, f'[null,["{text}"]]') == ("22008" if is_far else f'{{NULL,{{"{text}"}}}}')


def _range(name: str, of: Type) -> Type:
    return _type(name, "R", element=of)


INT4 = _type("int4", "N")
NUMERIC = _type("numeric", "N")
TIMES_RANGE = _range("tstzrange", TIMESTAMPTZ)


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (_range("int4range", INT4), "[1, 5)"),
        (_range("int4range", INT4), "(,)"),
        (_range("int4range", INT4), " EMPTY "),
        (_range("int4multirange", INT4), "{[1,2), [5,) , empty}"),
        (_range("int4multirange", INT4), "{ }"),
        (_range("numrange", NUMERIC), '["1.50",2e3)'),
        (TIMES_RANGE, '["2026-11-21 08:00:00+00","2026-11-22 08:00:00.5+05:30")'),
        (TIMES_RANGE, "[2026-11-21T08:00:00Z,)"),
        (_range("daterange", _type("date", "D")), "[2026-01-01,9999-12-31]"),
        (_range("textrange", _type("text", "S")), r'[now,"a,""b\\)")'),
    ],
)
def test_a_range_lands_as_it_is(of: Type, text: str) -> None:
    assert outcome(of, json.dumps(text)) == text


@pytest.mark.parametrize(
    ("of", "text", "state"),
    [
        (_range("int4range", INT4), "[1.5,5)", "22P02"),
        (_range("int4range", INT4), "{[1,5)}}", "22P02"),
        (_range("int4range", INT4), "[1,5) x", "22P02"),
        (_range("int4range", INT4), "[1,5),[7,8)", "22P02"),
        (_range("numrange", NUMERIC), "[NaN,)", "22P02"),
        (_range("numrange", NUMERIC), "[Infinity,)", "22P02"),
        (_range("floatrange", _type("float8", "N")), "[9007199254740993,)", "22003"),
        (TIMES_RANGE, '["9999-12-31 23:59:59-08",)', "22008"),
        (TIMES_RANGE, "[,0001-01-01T00:00:00+14:00]", "22008"),
        (TIMES_RANGE, "[2026-11-21 08:00:00.1234567+00,)", "22008"),
        (TIMES_RANGE, "[,infinity)", "22007"),
        (TIMES_RANGE, "[2026-11-21 08:00:00,)", "22007"),
        (_range("oidrange", _type("oid", "N")), "[-1,5)", "22003"),
        (_range("tstzmultirange", TIMESTAMPTZ), "{[,), [now,)}", "22007"),
        (TIMES_RANGE, '["' + '""' * 50_000, "22P02"),
    ],
)
def test_a_bound_obeys_the_rules_of_its_type(of: Type, text: str, state: str) -> None:
    assert outcome(of, json.dumps(text)) == state
    assert outcome(_type("_range", "A", element=of), json.dumps([None, text])) == state


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1.0", "1"),
        ("1e3", "1000"),
        ("-12.50E+1", "-125"),
        ("100e-2", "1"),
        ("-0.0", "-0"),
        ("0e999999999999", "0"),
        ('"2e0"', "2"),
        ("1e19", "10000000000000000000"),  # Postgres refuses it
        ("1e300", "22003"),
        ('"1e999999999999"', "22003"),
        ("1.5", "22P02"),
        ("10e-2", "22P02"),
        ('"1e-999999999999"', "22P02"),
    ],
)
def test_a_whole_number_lands_however_it_is_spelled(text: str, found: str) -> None:
    assert outcome(INT4, text) == found


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("oid", "-1", "22003"),
        ("oid", '"-1"', "22003"),
        ("oid", "4294967295", "4294967295"),
        ("oid", "4294967296", "22003"),
        ("oid", "-0", "-0"),
        ("xid8", "18446744073709551615", "18446744073709551615"),
        ("xid8", '"18446744073709551616"', "22003"),
        ("xid", "-1", "22003"),
    ],
)
def test_a_type_without_a_sign_takes_no_other_number(name: str, text: str, found: str) -> None:
    assert outcome(_type(name, "N"), text) == found


def test_a_text_without_end_takes_an_interval_no_time() -> None:
    """A pattern that begins with a run of digits takes minutes for this text, and a megabyte hours."""
    of = Type("pg_catalog", "interval", "T", -1)
    for text in ("1" * 200_000, "1." * 100_000, ".1 " * 70_000):
        (converted,), misfits = as_texts(of, [json.dumps(text).encode()])
        assert (converted, misfits) == (text, {})
