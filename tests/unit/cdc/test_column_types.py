"""How a source's column is published: by the name that `format_type` has for its type."""

import pytest

from services.cdc.merge.column_types import UnsupportedTypeError, column_type


@pytest.mark.parametrize(
    "declared",
    [
        "timestamp with time zone",
        "timestamp without time zone",
        "timestamp(3) with time zone",
        "timestamp(6) without time zone",
        "time without time zone",
        "timestamp with time zone[]",
        "double precision",
        "character varying",
        "character varying(30)",
        "numeric(8,1)",
        "interval day to second",
        "interval second(3)",
        "bit(1)",
        '"char"',
    ],
)
def test_a_type_of_postgres_is_published_as_itself(declared: str) -> None:
    assert column_type(declared).declared == declared


@pytest.mark.parametrize(
    "declared",
    ["app.mood", 'app."Mood"', '"My app".mood', "public.citext", "app.pair (composite)", "app.span (range)"],
)
def test_a_type_of_the_sources_own_is_published_as_text(declared: str) -> None:
    assert column_type(declared).declared == "text"


@pytest.mark.parametrize(
    "declared",
    [
        "bit(3)",
        "bit varying(3)",
        "bit varying",
        "time with time zone",
        "time(3) with time zone",
        "time with time zone[]",
        "line",
        "path",
        "box[]",
        "interval[]",
        "interval(3)[]",
        "interval day to second[]",
        "money[]",
        "time(3) without time zone[]",
        "tsvector[]",
        "datemultirange[]",
        "bit(1)[]",
        "xid8",
        "pg_snapshot",
        "public.hstore (opaque)",
        "public.geometry(Point,4326) (opaque)",
        "app.pair[] (opaque)",
    ],
)
def test_column_type_that_does_not_arrive_unchanged_is_refused(declared: str) -> None:
    with pytest.raises(UnsupportedTypeError):
        column_type(declared)


def test_enum_value_is_used_unchanged_and_composite_value_is_decoded_from_bytes() -> None:
    assert "decode" not in column_type("app.mood").template
    assert "decode" in column_type("app.pair (composite)").template


def test_times_are_made_of_the_number_that_a_change_has() -> None:
    """Without a zone it is microseconds since 1970, or milliseconds with up to three digits."""
    assert "/ 86400000)" in column_type("timestamp(3) without time zone").template
    assert "/ 86400000000)" in column_type("timestamp without time zone").template
