"""Times of Postgres and of headers: each is shown in UTC, in any format of a client."""

import pytest

from services.admin.ui.formats import exact
from services.ops.times import as_time


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-01-01 08:00:00.5+05:30", "2026-01-01 02:30:00 UTC"),
        ("2026-01-01T08:00:00", "2026-01-01 08:00:00 UTC"),
        ("9999-12-31T23:59:59+00:00", "9999-12-31 23:59:59 UTC"),
    ],
)
def test_a_time_is_one_in_utc(text: str, shown: str) -> None:
    found = as_time(text)
    assert found is not None
    assert found.tzinfo is not None
    assert exact(found) == exact(found.isoformat()) == shown


@pytest.mark.parametrize(
    "text",
    ["9999-12-31T23:59:59-08:00", "0001-01-01T00:00:00+14:00", "10000-01-01 00:00:00+00", "44-03-15 BC", ""],
)
def test_a_time_outside_of_the_years_1_to_9999_is_none(text: str) -> None:
    assert as_time(text) is None
