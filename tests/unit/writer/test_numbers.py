"""Numbers as text: which ones a column with a scale would round."""

import random
from decimal import Decimal

import msgspec
import pytest

from services.writer.columns.column_types import Type
from services.writer.columns.json_to_text import as_texts

_HEADER = 4


def _numeric(precision: int, scale: int) -> Type:
    return Type("pg_catalog", "numeric", "N", _HEADER + (precision << 16 | scale & 0x7FF))


def _lands(text: str, of: Type) -> bool:
    raw = msgspec.Raw(b'"%b"' % text.encode())
    texts, misfits = as_texts(of, [raw, msgspec.Raw(b"100")])
    assert texts[1] == "100", "the neighbour"
    assert texts[0] == (None if misfits else text)
    return not misfits


@pytest.mark.parametrize(
    ("text", "lands"),
    [
        ("1e99999999999999999999", True),  # Postgres says what it thinks of it
        ("1e-99999999999999999999", False),
        (f"1e{'9' * 5000}", True),
        (f"1e-{'9' * 5000}", False),
        (f"1.5e+{'0' * 5000}2", True),
        (f"0.{'0' * 5000}", True),
        (f"{'9' * 5000}.25", True),
    ],
)
def test_a_number_that_no_parser_has_room_for_is_judged_all_the_same(text: str, lands: bool) -> None:
    assert _lands(text, _numeric(10, 2)) is lands


@pytest.mark.parametrize("scale", [-2, 0, 2])
def test_number_lands_only_if_its_decimal_digits_fit_the_scale(scale: int) -> None:
    chance = random.Random(46)
    for _ in range(2000):
        whole = chance.choice(["0", "7", "70", "700", "120"])
        fraction = chance.choice(["", ".0", ".10", ".01", ".005", ".250"])
        exponent = chance.choice(["", "e0", "E+1", "e-1", "e-3", "e003", "E4"])
        text = chance.choice(["", "-"]) + whole + fraction + exponent
        number = Decimal(text).normalize()
        digits = number.as_tuple().exponent
        assert isinstance(digits, int)
        assert _lands(text, _numeric(10, scale)) is (not number or -digits <= scale), text


@pytest.mark.parametrize("text", ["1e", "1e+", "01", "1.", ".5", "0x1", "NaN", "1_0", "١"])  # noqa: RUF001
def test_text_that_is_not_a_number_does_not_land(text: str) -> None:
    assert not _lands(text, _numeric(10, 2))


def test_whole_number_that_a_negative_scale_would_round_is_refused() -> None:
    texts, misfits = as_texts(_numeric(10, -2), [msgspec.Raw(b"100"), msgspec.Raw(b"120")])
    assert texts == ["100", None]
    assert list(misfits) == [1]
    assert misfits[1].sqlstate == "22003"


def test_number_is_written_verbatim_whatever_the_other_values_are() -> None:
    of = Type("pg_catalog", "float8", "N", -1)
    for neighbour in (b"1", b"1.5"):
        texts, _ = as_texts(of, [msgspec.Raw(b"-0"), msgspec.Raw(neighbour)])
        assert texts == ["-0", neighbour.decode()]
