"""The catalog cache: entries expire, and a field is discarded only until the table has its column."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from psycopg2.extensions import connection, cursor

from services.writer.columns import catalog
from services.writer.model.routes import Contract, Routes
from services.writer.model.targets import Target
from services.writer.postgres import answer_cache
from services.writer.postgres.answer_cache import DISCARD_SECONDS, SECONDS
from tests.fixtures.writer import Bench, arrivals, event
from tests.integration.writer_tables.conftest import Tables

Turn = Callable[[float], None]


@pytest.fixture
def turn(monkeypatch: pytest.MonkeyPatch) -> Turn:
    """Turns the clock of what is remembered."""
    ahead = [0.0]
    monkeypatch.setattr(answer_cache, "now", lambda: time.monotonic() + ahead[0])

    def by(seconds: float) -> None:
        ahead[0] += seconds

    return by


@pytest.fixture
def discarding(tables: Tables) -> Tables:
    tables.routes = Routes("onramp", contracts=(Contract("discard"),))
    tables.bench.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
    return tables


def test_a_field_is_discarded_only_until_it_has_a_column(discarding: Tables, turn: Turn) -> None:
    assert discarding.land("t", {"id": 1, "x": 1}).discarded_fields == 1
    discarding.bench.execute("ALTER TABLE public.t ADD COLUMN x int")
    turn(DISCARD_SECONDS)
    done = discarding.land("t", {"id": 2, "x": 2})
    assert (done.landed.total(), done.discarded_fields) == (1, 0)
    assert discarding.bench.rows("SELECT id, x FROM public.t ORDER BY 1") == [(1, None), (2, 2)]


def test_table_that_discards_fields_is_queried_at_most_once_per_interval(
    discarding: Tables, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[None] = []
    look = catalog._query

    def counted(*arguments: Any) -> Any:
        asked.append(None)
        return look(*arguments)

    monkeypatch.setattr(catalog, "_query", counted)
    discarding.land("t", {"id": 1, "x": 1})
    turn(DISCARD_SECONDS)
    for n in range(2, 7):
        discarding.land("t", {"id": n, "x": 1})
    assert len(asked) <= 3  # a slow machine may look once more


@pytest.mark.parametrize("number", range(1, 4))
def test_a_table_that_is_replaced_while_it_is_described_parks_nothing(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    tables.bench.execute("CREATE TABLE public.t (id int PRIMARY KEY, v int)")
    number_of_queries = 0

    class Replacing(cursor):
        def execute(self, query: Any, given: Any = None) -> None:
            nonlocal number_of_queries
            number_of_queries += 1
            if number_of_queries == number + 1:
                tables.bench.execute(
                    "DROP TABLE public.t; CREATE TABLE public.t (id int PRIMARY KEY, v text)"
                )
            super().execute(query, given)

    query = catalog._query

    def queried(conn: connection, target: Target) -> catalog.Table | None:
        conn.cursor_factory = Replacing
        try:
            return query(conn, target)
        finally:
            conn.cursor_factory = cursor

    monkeypatch.setattr(catalog, "_query", queried)
    assert tables.land("t", {"id": 1, "v": "a"}).landed.total() == 1


def test_a_typed_tables_lost_key_is_noticed(tables: Tables, turn: Turn) -> None:
    tables.bench.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
    assert not tables.land("t", {"id": 1}).unkeyed
    tables.bench.execute("ALTER TABLE public.t DROP CONSTRAINT t_pkey")
    turn(SECONDS)
    assert tables.land("t", {"id": 2}).unkeyed


def test_a_landing_tables_lost_key_is_noticed_and_so_is_its_return(bench: Bench, turn: Turn) -> None:
    def remarked() -> int:
        statement = "SELECT coalesce(sum(count), 0)::int FROM onramp.warnings WHERE remark = 'unkeyed'"
        return int(bench.one(statement))

    bench.settle(arrivals([event("a")]))
    bench.execute("ALTER TABLE events.order_placed DROP CONSTRAINT order_placed_pkey")
    turn(SECONDS)
    bench.settle(arrivals([event("b")], first=1))
    assert remarked() == 1
    bench.execute("ALTER TABLE events.order_placed ADD PRIMARY KEY (_id)")
    turn(SECONDS)
    bench.settle(arrivals([event("c")], first=2))
    assert remarked() == 1


def test_a_landing_table_that_was_dropped_is_made_again(bench: Bench, turn: Turn) -> None:
    bench.settle(arrivals([event("a")]))
    bench.execute("DROP TABLE events.order_placed")
    turn(SECONDS)
    bench.settle(arrivals([event("b")], first=1))
    assert bench.rows("SELECT _id FROM events.order_placed") == [("b",)]


@pytest.mark.parametrize(
    ("before", "after", "text", "parks"),
    [
        ("numeric", "numeric(10,1)", "1.005", True),
        ("double precision", "real", "1.23456789", True),
        ("timestamptz", "timestamptz(0)", '"2026-01-01T00:00:00.5Z"', True),
        ("text", "varchar(5)", '"abcde  "', True),
        ("interval", "interval day", '"1 day 02:00:00"', True),
        ("text", "name", f'"{"x" * 64}"', True),
        ("varchar(5)", "varchar(6)", '"abcdef"', False),
    ],
)
def test_a_column_of_another_type_changes_no_value(
    tables: Tables, before: str, after: str, text: str, parks: bool
) -> None:
    tables.bench.execute(f"CREATE TABLE public.t (id int PRIMARY KEY, v {before})")
    assert tables.land("t", {"id": 1}).landed.total() == 1
    tables.bench.execute(f"ALTER TABLE public.t ALTER v TYPE {after}")
    done = tables.land("t", b'{"id":2,"v":%b}' % text.encode(), {"id": 3})
    assert (len(done.parked), done.landed.total()) == (int(parks), 2 - parks)


def test_another_table_under_the_same_name_is_described_again(tables: Tables) -> None:
    tables.bench.execute("CREATE TABLE public.t (id int PRIMARY KEY, v numeric)")
    tables.land("t", {"id": 1})
    tables.bench.execute(
        "CREATE TABLE public.next (id int PRIMARY KEY, v numeric(10,1));"
        "ALTER TABLE public.t RENAME TO past; ALTER TABLE public.next RENAME TO t"
    )
    assert len(tables.land("t", b'{"id":2,"v":1.005}', {"id": 3}).parked) == 1


def test_statistics_are_no_reason_to_describe_a_table_again(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.bench.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
    tables.land("t", {"id": 1})
    tables.bench.execute("ANALYZE public.t; TRUNCATE public.t")
    monkeypatch.setattr(catalog, "_query", None)
    assert tables.land("t", {"id": 2}).landed.total() == 1
