"""Floats, intervals and time ranges: the column stores every digit, or the row is parked."""

import pytest

from tests.integration.writer_tables.conftest import Tables
from tests.integration.writer_tables.test_values import one


@pytest.mark.parametrize(
    ("kind", "text", "lands"),
    [
        ("double precision", "0.1", "0.1"),
        ("double precision", "0.30000000000000004", "0.30000000000000004"),
        ("double precision", "1.7976931348623157e308", "1.7976931348623157e+308"),
        ("double precision", "5e-324", "5e-324"),
        ("double precision", "9007199254740992", "9.007199254740992e+15"),
        ("double precision", '"1.50"', "1.5"),
        ("double precision", "1e300", "1e+300"),
        ("real", "0.1", "0.1"),
        ("real", "52.520008", "52.520008"),
        ("real", "16777216", "1.6777216e+07"),
        ("real", "16777220", "1.677722e+07"),
        ("real[]", "[0.1,null]", "{0.1,NULL}"),
        ("interval", "1 day 02:00:00.123456", "1 day 02:00:00.123456"),
        ("interval", "PT0.5S", "00:00:00.5"),
        ("interval", "1.500000000 seconds", "00:00:01.5"),
        ("interval(3)", "00:00:00.1230", "00:00:00.123"),
        ("interval day to second(3)", "1 02:03:04.567", "1 day 02:03:04.567"),
    ],
)
def test_numbers_and_intervals_that_are_kept(tables: Tables, kind: str, text: str, lands: str) -> None:
    assert one(tables, kind, f'"{text}"' if kind.startswith("interval") else text) == lands


@pytest.mark.parametrize(
    ("kind", "text", "state"),
    [
        ("double precision", "9007199254740993", "22003"),
        ("double precision", "0.12345678901234567890", "22003"),
        ("double precision", '"9007199254740993.0"', "22003"),
        ("double precision", '"1e309"', "22003"),
        ("double precision", "1e-400", "22003"),
        ("double precision[]", "[9007199254740993]", "22003"),
        ("real", "16777217", "22003"),
        ("real", "1.23456789", "22003"),
        ("real", "1e-60", "22003"),
        ("money", "1.50", "42804"),
        ("money", '"1.005"', "42804"),
        ("interval", '"0.0000001 seconds"', "22008"),
        ("interval", '"1.04 years"', "22008"),
        ("interval", '"P0.333333333D"', "22008"),
        ("interval", '"1.5 us"', "22008"),
        ("interval", '"P1e-7D"', "22008"),
        ("interval(0)", '"1.5 seconds"', "22008"),
        ("interval day", '"1 day 02:00:00"', "22008"),
        ("interval day to minute", '"00:00:30"', "22008"),
        ("tstzrange", '"[2026-01-01 00:00:00.1234567+00,)"', "22008"),
    ],
)
def test_digits_that_a_column_would_drop_are_refused(
    tables: Tables, kind: str, text: str, state: str
) -> None:
    assert one(tables, kind, text) == state
