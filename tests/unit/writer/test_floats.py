"""Numbers for columns of floats: every spelling of a stored value lands; no other number does."""

import struct
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.writer.columns.column_types import Type
from services.writer.columns.value_changes import keeps_number

DOUBLE = Type("pg_catalog", "float8", "N", -1)
REAL = Type("pg_catalog", "float4", "N", -1)
_KINDS = {DOUBLE.name: np.float64, REAL.name: np.float32}

doubles = st.floats(allow_nan=False, allow_infinity=False)
reals = st.floats(width=32, allow_nan=False, allow_infinity=False)
numbers = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30)


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (DOUBLE, "0.1"),
        (DOUBLE, "0.10000000000000001"),
        (DOUBLE, "-59.899999999999999"),
        (DOUBLE, "4.9E-324"),
        (DOUBLE, "5e-324"),
        (DOUBLE, "0.100000000000000000000000000000"),
        (DOUBLE, "5.684341886080802e-14"),  # 2 ** -44, of which ...01 is nearer
        (DOUBLE, f"1{'0' * 300}"),
        (DOUBLE, f"1.5{'0' * 5000}"),
        (REAL, "3.14159274"),
        (REAL, "-1.17549435E-38"),
        (REAL, "0.1"),
        (REAL, "0.100000001"),
        (REAL, "1.2379401e+27"),  # 2 ** 90, of which 1.2379400e+27 is nearer
    ],
)
def test_a_number_lands_however_many_digits_tell_what_is_stored(of: Type, text: str) -> None:
    assert keeps_number(of, text)


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (DOUBLE, "9007199254740993"),
        (DOUBLE, "123456789012345678"),
        (DOUBLE, "59.899999999999998"),
        (DOUBLE, "0.1000000000000000055"),
        (DOUBLE, "3e-324"),
        (DOUBLE, f"1.{'3' * 5000}"),
        (REAL, "16777217"),
        (REAL, "1.23456789"),
        (REAL, "0.1000000015"),
        (REAL, "3.141592653589793"),
    ],
)
def test_number_that_its_float_column_cannot_return_is_refused(of: Type, text: str) -> None:
    assert not keeps_number(of, text)


@settings(deadline=None)
@given(doubles, st.integers(1, 17))
def test_every_spelling_of_a_double_lands(value: float, digits: int) -> None:
    for text in (repr(value), f"{value:.17g}", f"{value:.16e}", f"{value:.15g}"):
        assert keeps_number(DOUBLE, text), text
    rounded = f"{value:.{digits}g}"
    assert keeps_number(DOUBLE, rounded) or digits > 15 or abs(value) < 2.3e-308, rounded


@settings(deadline=None)
@given(reals)
def test_every_spelling_of_a_real_lands(value: float) -> None:
    for text in (str(np.float32(value)), f"{value:.9g}", f"{value:.8E}", f"{value:.6g}"):
        assert keeps_number(REAL, text) or abs(value) < 1.2e-38, text
    assert struct.unpack("f", struct.pack("f", float(f"{value:.9g}"))) == (value,)


@settings(deadline=None)
@given(st.one_of(doubles.map(repr), reals.map(repr), numbers.map(str), numbers.map("{:.17g}".format)))
@pytest.mark.parametrize("of", [DOUBLE, REAL])
def test_landed_number_differs_from_the_stored_value_by_at_most_half_a_digit(of: Type, text: str) -> None:
    """Check that the stored value has every given digit."""
    with np.errstate(over="ignore", under="ignore"):
        kept = _KINDS[of.name](float(text))
    if keeps_number(of, text) and np.isfinite(kept) and kept:
        given_digits = max(len("".join(map(str, Decimal(text).as_tuple().digits)).rstrip("0")), 1)
        shortest = np.format_float_scientific(kept, unique=True)
        assert Decimal(text) in {Decimal(shortest), Decimal(f"{float(kept):.{given_digits - 1}e}")}
