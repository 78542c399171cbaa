"""Polls of an unchanged catalogue read no tables; the first poll after a change reads them."""

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest

from services.cdc.agent import names
from services.cdc.agent.source_sql import SourceDatabase
from shared.registry.sources import Source
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import execute

MADE = f"""
    CREATE SCHEMA app;
    CREATE SCHEMA far;
    CREATE TYPE far.mood AS ENUM ('sad', 'glad');
    CREATE TYPE far.pair AS (a int, b int);
    CREATE DOMAIN far.short AS varchar(5);
    CREATE TABLE app.t (id int PRIMARY KEY, u int NOT NULL UNIQUE, v varchar(9), mood far.mood, pair far.pair,
                        short far.short);
    CREATE TABLE app.parts (id int, k int) PARTITION BY LIST (k);
    CREATE TABLE app.parts_1 PARTITION OF app.parts FOR VALUES IN (1);
    CREATE TABLE far.middle PARTITION OF app.parts FOR VALUES IN (2) PARTITION BY LIST (id);
    CREATE TABLE far.low PARTITION OF far.middle FOR VALUES IN (5);
    CREATE PUBLICATION {names.publication("shop")} FOR TABLES IN SCHEMA app;
"""
#: Each changes what a look says of some table.
CHANGES = (
    "ALTER TABLE app.t ADD more int",
    "ALTER TABLE app.t DROP more",
    "ALTER TABLE app.t RENAME u TO w",
    "ALTER TABLE app.t ALTER v TYPE varchar(20)",
    "ALTER TABLE app.t ALTER v SET DEFAULT ''",
    "ALTER TABLE app.t ALTER w DROP NOT NULL, ALTER v SET NOT NULL",
    "ALTER TABLE app.t ALTER w SET NOT NULL",
    "ALTER TABLE app.t REPLICA IDENTITY USING INDEX t_u_key",
    "ALTER TABLE app.t DROP CONSTRAINT t_u_key",
    "ALTER TABLE app.t REPLICA IDENTITY DEFAULT",
    "ALTER TABLE app.t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (w)",
    "TRUNCATE app.t",
    "ALTER TABLE app.t SET UNLOGGED; ALTER TABLE app.t SET LOGGED",
    "CREATE TABLE app.made (id int)",
    "ALTER TABLE app.made RENAME TO named",
    "ALTER TABLE app.named SET SCHEMA far",
    "ALTER TABLE far.named SET SCHEMA app",
    "CREATE TABLE far.heir () INHERITS (app.named)",
    "DROP TABLE far.heir",
    "DROP TABLE app.named",
    "ALTER TYPE far.mood RENAME VALUE 'sad' TO 'blue'",
    "ALTER TYPE far.pair ADD ATTRIBUTE c int",
    "ALTER TYPE far.mood RENAME TO temper",
    "ALTER TABLE app.parts DETACH PARTITION app.parts_1",
    "ALTER TABLE app.parts ATTACH PARTITION app.parts_1 FOR VALUES IN (1)",
    "TRUNCATE far.low",
    "CREATE TABLE far.lower PARTITION OF far.middle FOR VALUES IN (6)",
    "ALTER TABLE far.middle DETACH PARTITION far.low",
    f"ALTER PUBLICATION {names.publication('shop')} SET (publish = 'insert')",
    "ALTER SCHEMA app RENAME TO away",
    "ALTER SCHEMA away RENAME TO app",
)
#: None of these is of matter; the tables are not even read.
UNRELATED = (
    "INSERT INTO app.t (id, u) VALUES (1, 1)",
    "UPDATE app.t SET u = 2",
    "ANALYZE",
    "VACUUM app.t",
    "CREATE TEMP TABLE passing (id int PRIMARY KEY)",
    "CREATE TABLE far.other (id int PRIMARY KEY); DROP TABLE far.other",
    "SELECT pg_current_xact_id()",
)


@pytest.fixture
def source(database: Database) -> Iterator[SourceDatabase]:
    execute(database.dsn, MADE)
    with closing(new_reconciler(database)) as made:
        yield made


def new_reconciler(database: Database) -> SourceDatabase:
    source = Source(dsn_env="ONRAMP_SOURCE_SHOP", schemas=("app",), publish="shop")
    return SourceDatabase("shop", source, database.dsn)


def run(database: Database, statement: str) -> None:
    with closing(psycopg2.connect(database.dsn)) as conn, conn.cursor() as cursor:
        conn.autocommit = True
        cursor.execute(statement)


def test_catalog_change_is_detected_by_a_reader_that_has_inspected_before(
    source: SourceDatabase, database: Database
) -> None:
    before = source.inspect()
    with closing(new_reconciler(database)) as fresh:
        for change in CHANGES:
            run(database, change)
            fresh.close()  # and forgets
            source_state, expected = source.inspect(), fresh.inspect()
            assert (source_state.tables, source_state.excluded_tables) == (
                expected.tables,
                expected.excluded_tables,
            ), change
            assert source_state.tables != before.tables, change
            before = source_state


def test_irrelevant_catalog_change_causes_no_read_of_the_tables(
    source: SourceDatabase, database: Database
) -> None:
    before = source.inspect()
    for unrelated in UNRELATED:
        run(database, unrelated)
        assert source.inspect().tables is before.tables, unrelated
