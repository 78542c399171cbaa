"""Snapshots of lookups' tables in a real Postgres."""

import json
from contextlib import closing

import psycopg2
import pytest

from services.transform.function.lookups import LookupTable
from services.transform.function.lookups_sql import read_lookup
from shared.errors import TRANSFORM_LOOKUP_UNREADABLE, InfrastructureError
from shared.registry.transforms import Lookup
from tests.fixtures.fix_postgres import Database

ROWS = """
    CREATE TABLE public.airlines (carrier text, name text, founded int, "odd name" numeric);
    INSERT INTO public.airlines
    VALUES ('UA', 'United', 1926, 1.5), ('AA', NULL, 1930, NULL), (NULL, 'x', 1, 1);
"""


def execute(database: Database, statements: str) -> None:
    with closing(psycopg2.connect(database.dsn)) as conn, conn, conn.cursor() as cursor:
        cursor.execute(statements)


def read(database: Database, **fields: object) -> LookupTable:
    given = {
        "database": "onramp",
        "table": "public.airlines",
        "key": "carrier",
        "columns": ["name"],
        **fields,
    }
    return read_lookup("airlines", Lookup.model_validate(given), database.dsn)


def test_a_snapshot_has_the_rows_and_columns_of_the_table(database: Database) -> None:
    execute(database, ROWS)
    table = read(database, columns=["name", "odd name"])
    rows = {key: json.loads(row) for key, row in json.loads(table.content).items()}
    assert rows == {"AA": {"name": None, "odd name": None}, "UA": {"name": "United", "odd name": 1.5}}
    assert read(database, columns=["name", "odd name"]).digest == table.digest
    execute(database, "UPDATE public.airlines SET name = 'American' WHERE carrier = 'AA'")
    assert read(database, columns=["name", "odd name"]).digest != table.digest
    by_number = read(database, key="founded", columns=["carrier"])
    assert json.loads(json.loads(by_number.content)["1926"]) == {"carrier": "UA"}


def test_an_unreadable_table_is_an_error_of_the_system(database: Database) -> None:
    execute(database, ROWS)
    for fields, reason in (
        ({"max_rows": 1}, "more than 1 rows"),
        ({"columns": ["absent"]}, "SQLSTATE 42703"),
        ({"table": "public.absent"}, "SQLSTATE 42P01"),
    ):
        with pytest.raises(InfrastructureError, match=reason) as raised:
            read(database, **fields)
        assert raised.value.fault is TRANSFORM_LOOKUP_UNREADABLE
    execute(database, "INSERT INTO public.airlines VALUES ('UA', 'again', 1, 1)")
    with pytest.raises(InfrastructureError, match=r"two rows of public\.airlines have the same carrier"):
        read(database)
