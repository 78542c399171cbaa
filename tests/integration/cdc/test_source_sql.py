"""SQL printed by `onramp sources sql` stops before the publication would break the application."""

import re

import psycopg2
import pytest

from services.cdc.setup.prepare import statements
from shared.registry.sources import Source
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import execute

SHOP = Source(dsn_env="ONRAMP_SOURCE_SHOP", schemas=("app", "it's"), publish="shop")


def test_it_stops_at_a_table_that_could_not_be_updated_once_published(database: Database) -> None:
    check = re.search(r"DO \$\$ DECLARE.*?END \$\$;", statements("shop", SHOP), re.DOTALL)
    assert check is not None
    execute(
        database.dsn,
        'CREATE SCHEMA app; CREATE SCHEMA "it\'s"; CREATE TABLE app.ok (id int PRIMARY KEY);'
        "CREATE TABLE app.whole (id int); ALTER TABLE app.whole REPLICA IDENTITY FULL;"
        'CREATE TABLE other (id int); CREATE TABLE "it\'s"."Loans" (id int)',
    )
    with pytest.raises(psycopg2.errors.RaiseException) as raised:
        execute(database.dsn, check[0])
    assert 'without a primary key: "it\'s"."Loans"\n' in str(raised.value)
    execute(database.dsn, 'ALTER TABLE "it\'s"."Loans" ADD PRIMARY KEY (id)')
    execute(database.dsn, check[0])
