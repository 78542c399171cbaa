"""`onramp sources check`: warnings about columns whose changes do not carry their full values."""

import pytest

from services.cdc.agent.source_sql import SourceError
from services.cdc.agent.source_state import Column, Table
from services.cdc.change_detection.table_fingerprint import RowsStamp
from services.cdc.setup.check_sql import facts, of_types
from shared.registry.sources import Source


def _table(**types: str) -> Table:
    columns = tuple(Column(name, type_, not_null=False, generated=False) for name, type_ in types.items())
    stamp = RowsStamp(oid=1, columns={})
    return Table(oid=1, schema="app", name="t", columns=columns, rows_stamp=stamp)


def test_each_column_that_would_hold_its_table_is_named_with_its_type_and_how_to_leave_it_out() -> None:
    told = list(of_types(_table(a="bit(8)", b="integer", c="bit varying", d="bit(8)[]")))
    assert [fact.level for fact in told] == ["wrong"] * 3
    named = zip(told, (("a", "bit(8)"), ("c", "bit varying"), ("d", "bit(8)[]")), strict=True)
    for fact, (column, type_) in named:
        assert fact.what.startswith(f"app.t.{column} is of the type {type_},")
        assert f'"{column}": null' in fact.fix


def test_column_types_that_arrive_unchanged_have_no_warning() -> None:
    assert list(of_types(_table(a="bit(1)", b="text[]", c="app.mood", d="timestamp with time zone"))) == []


def test_array_columns_that_arrive_as_null_when_unchanged_have_a_warning() -> None:
    told = list(of_types(_table(a="numeric(8,2)[]", b="text[]", c="integer[] (domain)", d="app.mood[]")))
    assert [(fact.level, fact.what.partition(" is of ")[0]) for fact in told] == [
        ("warn", f"app.t.{name}") for name in "acd"
    ]
    assert told[0].fix.startswith(
        'models: leave the column out ("a": null), or exclude the table, or give it'
    )


def test_unreachable_source_is_reported_with_the_libpq_message() -> None:
    source = Source(dsn_env="ONRAMP_SOURCE_SHOP", schemas=("app",), publish="shop")
    with pytest.raises(SourceError, match="cannot query the source: Connection refused"):
        list(facts("shop", source, "postgresql://u:secret@127.0.0.1:1/d", rows=False))
