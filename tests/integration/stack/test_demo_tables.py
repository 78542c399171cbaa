"""The demo's table of airlines: created once, and never changed if it is there."""

from contextlib import closing

import psycopg2

from stack.demo_tables import make_airlines
from tests.fixtures.fix_postgres import Database


def test_the_table_is_created_once_and_then_left_as_it_is(database: Database) -> None:
    assert make_airlines(database.dsn, {"UA": "United", "AA": "American"})
    assert not make_airlines(database.dsn, {"B6": "JetBlue"})
    with closing(psycopg2.connect(database.dsn)) as conn, conn.cursor() as cursor:
        cursor.execute("SELECT carrier, name FROM public.airlines ORDER BY 1")
        assert cursor.fetchall() == [("AA", "American"), ("UA", "United")]
