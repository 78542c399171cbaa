"""A look at a source's catalogue waits for no lock of a table, and asks nothing that a role may not know."""

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest

from services.elt.agent.seen import Table
from services.elt.agent.source_sql import SourceDatabase
from shared.registry.sources import Source
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import execute

MADE = """
    CREATE SCHEMA app;
    CREATE SCHEMA far;
    CREATE TABLE app.parts (id int, k int) PARTITION BY LIST (k);
    CREATE TABLE app.parts_1 PARTITION OF app.parts FOR VALUES IN (1);
    CREATE TABLE app.middle PARTITION OF app.parts FOR VALUES IN (2) PARTITION BY LIST (id);
    CREATE TABLE far.low PARTITION OF app.middle FOR VALUES IN (5);
    CREATE TABLE far.root (id int) PARTITION BY LIST (id);
    CREATE TABLE app.own PARTITION OF far.root FOR VALUES IN (1);
"""


@pytest.fixture
def source(database: Database) -> Iterator[SourceDatabase]:
    execute(database.dsn, MADE)
    made = SourceDatabase(
        "shop", Source(dsn_env="ONRAMP_SOURCE_SHOP", schemas=("app",), publish="shop"), database.dsn
    )
    yield made
    made.close()


def tables(source: SourceDatabase) -> dict[str, Table]:
    return {table.full_name: table for table in source.look().tables}


def test_a_partition_that_is_locked_stops_no_look(source: SourceDatabase, database: Database) -> None:
    with closing(psycopg2.connect(database.dsn)) as conn, conn.cursor() as cursor:
        cursor.execute("LOCK TABLE app.parts_1, far.low IN ACCESS EXCLUSIVE MODE")
        stamp = tables(source)["app.parts"].rows_stamp
    assert (len(stamp.partitions), len(stamp.files)) == (2, 3)


def test_a_partition_whose_root_is_not_captured_is_a_table_of_its_own(source: SourceDatabase) -> None:
    assert {name: table.is_partition for name, table in tables(source).items()} == {
        "app.parts": False,
        "app.parts_1": True,
        "app.middle": True,
        "app.own": False,
    }


def test_a_partition_that_is_attached_again_has_another_stamp(
    source: SourceDatabase, database: Database
) -> None:
    before = tables(source)["app.parts"].rows_stamp
    assert before == tables(source)["app.parts"].rows_stamp
    execute(
        database.dsn,
        "ALTER TABLE app.parts DETACH PARTITION app.parts_1;"
        "ALTER TABLE app.parts ATTACH PARTITION app.parts_1 FOR VALUES IN (1)",
    )
    after = tables(source)["app.parts"].rows_stamp
    assert (before.partitions, before.files == after.files) == (after.partitions, False)
