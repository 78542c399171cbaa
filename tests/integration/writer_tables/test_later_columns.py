"""A release whose landing table has one more column, over tables that an older one made.

The newer release is a process of its own, in which the definition has the column before anything
is imported that comes of it.
"""

import subprocess
import sys
from contextlib import closing

import psycopg2
import pytest

from services.ops import totals_sql
from services.ops.findings import Source, Table
from tests.fixtures.writer import PARTITION, Bench, arrivals, event
from tests.unit.conventions.tree import ROOT

NEWER = """
import logging, sys
from shared import landing_columns
from shared.landing_columns import Column, Part
landing_columns.COLUMNS += (Column("_shift", "integer", "", Part.ORIGIN, is_later=True, default="7"),)
import pyarrow as pa
from services.writer.persist import landing_tables
landing_tables.SOURCES["_shift"] = lambda arrivals, _: pa.repeat(pa.scalar(8, pa.int32()), len(arrivals))
logging.basicConfig(stream=sys.stderr, format="%(message)s %(sql)s", level=logging.ERROR)
from services.writer.waiting.release import Release
from services.writer.model.routes import Routes
from tests.fixtures.writer import Bench, arrivals, event
bench, first = Bench(sys.argv[1]), int(sys.argv[2])
values = [event(f"new-{first + n}") for n in range(3)]
print(bench.settle(arrivals(values, first=first), settings={"lock_timeout_ms": 200}).failures)
if sys.argv[3:] == ["release"]:
    print(Release(bench.database).run(Routes("onramp")))
"""


def _newer(bench: Bench, first: int, *more: str) -> tuple[list[str], str]:
    """What the newer release said of three events from this offset on, and logged."""
    done = subprocess.run(
        [sys.executable, "-c", NEWER, bench.dsn, str(first), *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def _shifts(bench: Bench) -> list[tuple[object, ...]]:
    return bench.rows("SELECT _id, _shift FROM events.order_placed ORDER BY _offset")


def test_existing_table_gets_the_new_column_and_no_event_is_parked(bench: Bench) -> None:
    bench.settle(arrivals([event("old")]))
    assert _newer(bench, 1)[0] == ["()"]
    assert _shifts(bench) == [("old", 7), ("new-1", 8), ("new-2", 8), ("new-3", 8)]
    assert bench.totals() == {"landed": 4}
    bench.settle(arrivals([event("old-again")], first=4))  # the older release goes on beside it
    assert _shifts(bench)[-1] == ("old-again", 7)
    with totals_sql.opened("onramp", bench.dsn) as snapshot:
        found = list(snapshot.rows(Table("onramp", "events", "order_placed"), Source(*PARTITION)))
        assert [row.id for row in found] == ["old", "new-1", "new-2", "new-3", "old-again"]


def test_a_new_table_has_it_from_the_start(bench: Bench) -> None:
    assert _newer(bench, 0)[0] == ["()"]
    assert _shifts(bench) == [(f"new-{n}", 8) for n in range(3)]


def test_while_the_table_is_in_use_its_events_wait_and_then_land(bench: Bench) -> None:
    bench.settle(arrivals([event("old")]))
    with closing(psycopg2.connect(bench.dsn)) as reader, reader.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM events.order_placed")
        assert _newer(bench, 1)[0] == ["()"]
    assert bench.totals() == {"landed": 1, "waiting": 3}
    assert _newer(bench, 4, "release")[0] == ["()", "[]"]
    assert [i for i, _ in _shifts(bench)] == ["old", *(f"new-{n}" for n in range(1, 7))]


@pytest.fixture
def writing(bench: Bench) -> Bench:
    """A role that may write to the landing tables and owns none."""
    name = "role_" + bench.dsn.rpartition("/")[2]
    bench.execute(
        f"CREATE ROLE {name} LOGIN PASSWORD 'x'; GRANT USAGE ON SCHEMA onramp, events TO {name};"
        f"GRANT ALL ON ALL TABLES IN SCHEMA onramp TO {name};"
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA onramp TO {name}"
    )
    head, _, tail = bench.dsn.rpartition("@")
    return Bench(f"{head.partition('://')[0]}://{name}:x@{tail}")


def test_a_role_that_may_not_alter_has_the_events_wait_and_says_the_sql(bench: Bench, writing: Bench) -> None:
    bench.settle(arrivals([event("old")]))
    bench.execute(f"GRANT SELECT, INSERT ON events.order_placed TO {writing.user}")
    try:
        said, logged = _newer(writing, 1)
        assert said == ["()"]
        assert bench.totals() == {"landed": 1, "waiting": 3}
        (sql,) = {line[line.index("ALTER") :] for line in logged.splitlines() if "ALTER" in line}
        assert sql == (
            'ALTER TABLE "events"."order_placed" ADD COLUMN IF NOT EXISTS _shift integer DEFAULT 7'
        )
        bench.execute(sql)
        assert _newer(writing, 4, "release")[0] == ["()", "[]"]
        assert bench.totals() == {"landed": 7, "waiting": 0}
    finally:
        bench.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{writing.user}';"  # noqa: S608
            f"DROP OWNED BY {writing.user}; DROP ROLE {writing.user}"
        )
