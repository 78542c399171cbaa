"""What a column would change without an error is refused before the database is asked."""

import msgspec
import pytest

from services.writer.columns.column_types import Type
from services.writer.columns.json_to_text import as_texts


def _type(name: str, category: str, modifier: int = -1, element: Type | None = None) -> Type:
    return Type("pg_catalog", name, category, modifier, element=element)


TIMESTAMPTZ = _type("timestamptz", "D")
TIMES = _type("_timestamptz", "A", element=TIMESTAMPTZ)


def outcome(of: Type, text: str) -> str | None:
    """The text that the column gets, or the SQLSTATE of the refusal."""
    (found,), misfits = as_texts(of, [msgspec.Raw(text.encode())])
    return misfits[0].sqlstate if misfits else found


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
