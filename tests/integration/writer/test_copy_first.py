"""COPY before conflict checks: a repeat or a bad row changes no outcome of other rows."""

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import psycopg2
import pyarrow as pa
import pytest
from psycopg2.extensions import connection

from services.writer.model.targets import Target
from services.writer.persist.copy import copy_texts
from services.writer.persist.copy_new_rows import copy_first
from services.writer.persist.insert import insert
from services.writer.persist.insert_spec import Field, InsertResult, InsertSpec
from services.writer.postgres.database import Database
from tests.fixtures import fix_postgres
from tests.fixtures.writer import eventually

_FIELDS = (Field("k", ("pg_catalog", "int4"), "int4"), Field("v", ("pg_catalog", "text"), "text"))
WHAT = InsertSpec(Target("onramp", "public", "t", typed=True), _FIELDS, ("k",), "t_pkey")


@dataclass
class Hall:
    """One session beside a table; keeps how many rows each way was given."""

    conn: connection
    database: Database
    copied: list[int] = field(default_factory=list)
    inserted: list[int] = field(default_factory=list)

    def land(self, keys: list[object], what: InsertSpec = WHAT) -> InsertResult:
        """What became of rows with these keys, in a transaction of their own."""
        self.copied.clear()
        self.inserted.clear()
        rows = pa.table({"k": [str(k) for k in keys], "v": ["x"] * len(keys)})

        def copy(some: pa.Table) -> int:
            self.copied.append(some.num_rows)
            return copy_texts(self.conn, what.table, some)

        def inserted(some: pa.Table) -> InsertResult:
            self.inserted.append(some.num_rows)
            columns = [column.combine_chunks() for column in some.columns]
            return insert(self.conn, self.database, what, columns, lambda: None)

        with self.conn:
            return copy_first(self.conn, self.database, what, rows, copy=copy, insert=inserted)

    def keys(self) -> list[int]:
        with self.conn, self.conn.cursor() as cursor:
            cursor.execute("SELECT k FROM public.t ORDER BY 1")
            return [k for (k,) in cursor.fetchall()]


@pytest.fixture
def hall(database: fix_postgres.Database) -> Iterator[Hall]:
    with closing(psycopg2.connect(database.dsn)) as conn:
        with conn, conn.cursor() as cursor:
            cursor.execute("CREATE TABLE public.t (k int PRIMARY KEY, v text)")
        yield Hall(conn, Database("onramp", database.dsn))


def _landed(found: InsertResult) -> list[int]:
    return [int(n) for n in found.landed.nonzero()[0]]


def test_new_rows_are_copied_and_nothing_is_asked(hall: Hall) -> None:
    assert _landed(hall.land([1, 2, 3])) == [0, 1, 2]
    assert (hall.copied, hall.inserted) == ([3], [])


def test_large_batch_copies_the_new_rows_and_inserts_only_the_repeats(hall: Hall) -> None:
    hall.land([7])
    found = hall.land([*range(100), 50, 50])
    assert _landed(found) == [n for n in range(100) if n != 7]
    assert found.errors == {}
    assert (hall.copied, hall.inserted) == ([102, 99], [3])


def test_where_a_repeat_was_met_the_next_rows_are_asked_for_before_they_are_copied(hall: Hall) -> None:
    hall.land([1])
    hall.land([1, 2])
    assert _landed(hall.land([3, 2, 4])) == [0, 2]
    assert (hall.copied, hall.inserted) == ([2], [1])
    for n in range(20):
        hall.land([10 + n])
    hall.land([1, 5])
    assert hall.copied == [2, 1], "after twenty times without one, COPY has its chance again"


def test_rows_that_are_all_repeats_are_not_copied(hall: Hall) -> None:
    hall.land([1, 2])
    assert _landed(hall.land([1, 2])) == []
    assert _landed(hall.land([2, 1])) == []
    assert (hall.copied, hall.inserted) == ([], [2])


def test_a_bad_row_parks_alone_and_the_next_rows_go_round_at_once(hall: Hall) -> None:
    found = hall.land([1, "one", 2])
    assert (_landed(found), list(found.errors)) == ([0, 2], [1])
    hall.land([3, "three", 4])
    assert (hall.copied, hall.inserted) == ([], [3]), "COPY would be refused again"
    assert hall.keys() == [1, 2, 3, 4]


@pytest.mark.parametrize("before", [1, 2], ids=["copied", "asked for"])
def test_repeat_and_bad_row_in_one_batch_are_distinguished(hall: Hall, before: int) -> None:
    for _ in range(before):
        hall.land([1])
    found = hall.land([1, "one", 2])
    assert (_landed(found), list(found.errors)) == ([2], [1])


def test_keys_that_are_equal_only_to_the_table_are_no_error(hall: Hall) -> None:
    hall.land([1])
    found = hall.land(["01", "2", "02", "3"])
    assert (_landed(found), found.errors) == ([1, 3], {})


def test_a_clash_on_another_index_is_no_repeat(hall: Hall) -> None:
    with hall.conn, hall.conn.cursor() as cursor:
        cursor.execute("CREATE UNIQUE INDEX one_v ON public.t (v)")
    hall.land([1])
    found = hall.land([2, 3])
    assert (_landed(found), sorted(found.errors)) == ([], [0, 1])
    assert hall.copied == [2], "what the answer does not change is not tried again"


def test_a_row_that_another_session_adds_after_the_answer_is_a_repeat(hall: Hall) -> None:
    hall.land([1])
    hall.land([1])  # from here on the table is asked first
    with closing(psycopg2.connect(hall.database.dsn)) as other, other.cursor() as cursor:
        cursor.execute("INSERT INTO public.t VALUES (3, 'theirs')")
        found: list[InsertResult] = []
        landing = threading.Thread(target=lambda: found.append(hall.land([2, 3, 1])))
        landing.start()
        eventually(lambda: _waits(hall.database.dsn))
        other.commit()
        landing.join(30)
    assert (_landed(found[0]), found[0].errors) == ([0], {})
    assert hall.keys() == [1, 2, 3]


def _waits(dsn: str) -> bool:
    with closing(psycopg2.connect(dsn)) as conn, conn.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone() == (1,)


def test_repeats_are_found_in_the_index_by_key_without_a_table_scan(hall: Hall) -> None:
    """A hash or merge join would read all of a table that is some ten times as long as the rows."""
    with hall.conn, hall.conn.cursor() as cursor:
        cursor.execute("INSERT INTO public.t SELECT n, 'x' FROM generate_series(1, 20000) n")
    hall.land([1, *range(30_000, 40_000)])
    with hall.conn, hall.conn.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
    with hall.conn, hall.conn.cursor() as cursor:
        cursor.execute(
            "SELECT t.seq_tup_read, i.idx_tup_read FROM pg_stat_user_tables t "
            "JOIN pg_stat_user_indexes i USING (relid) WHERE t.relname = 't'"
        )
        from_table, from_index = cursor.fetchone() or (None, None)
    assert from_table == 0
    assert 0 < from_index < 10, "entries that were read: for one repeat a few"


def test_keys_whose_type_is_of_another_schema_are_not_asked_for(hall: Hall) -> None:
    """Its `=` is not found under the pinned search_path, and another one may read all of the table."""
    with hall.conn, hall.conn.cursor() as cursor:
        cursor.execute("CREATE TYPE public.kind AS ENUM ('one', 'two', 'three')")
        cursor.execute("CREATE TABLE public.kinds (k public.kind PRIMARY KEY, v text)")
    fields = (Field("k", ("public", "kind"), "public.kind"), _FIELDS[1])
    what = InsertSpec(Target("onramp", "public", "kinds", typed=True), fields, ("k",), "kinds_pkey")
    hall.land(["one"], what)
    found = hall.land(["one", "two"], what)
    assert (_landed(found), found.errors) == ([1], {})
    assert (hall.copied, hall.inserted) == ([2], [2])
