"""Values at the limits of their types land, as Debezium 3.7 writes them (`r`: from a snapshot)."""

from contextlib import closing
from typing import Any, Final

import orjson
import psycopg2
from psycopg2 import sql

from services.cdc.merge.column_types import column_type
from tests.fixtures.fix_postgres import Database

#: `294276-12-31 23:59:59.999999` has overflowed.
LATE: Final = -9223372036853775810
LANDS: Final = (
    ("numeric", "1.50", "1.50"),
    ("numeric", "POSITIVE_INFINITY", "Infinity"),
    ("numeric", "NEGATIVE_INFINITY", "-Infinity"),
    ("numeric", "NAN", "NaN"),
    ("numeric(10,2)", "1.5", "1.50"),
    ("timestamp without time zone", 9223372036854775807, "infinity"),
    ("timestamp without time zone", -9223372036854775808, "-infinity"),
    ("timestamp without time zone", LATE, "infinity"),
    ("timestamp without time zone[]", [LATE], "{infinity}"),
    ("timestamp without time zone", 9223371936000000000, "294247-01-09 00:00:00"),
    ("timestamp without time zone", -210863520000000000, "4713-01-01 00:00:00 BC"),
    ("timestamp without time zone", -1, "1969-12-31 23:59:59.999999"),
    ("timestamp(3) without time zone", 9223372036825200000, "infinity"),
    ("timestamp(3) without time zone", 9224318015999999, "294276-12-31 23:59:59.999"),
    ("timestamp(3) without time zone", -210863520000000, "4713-01-01 00:00:00 BC"),
    ("timestamp with time zone", "infinity", "infinity"),
    ("timestamp with time zone", "-infinity", "-infinity"),
    ("timestamp with time zone", "2026-02-28T10:34:56.789012Z", "2026-02-28 10:34:56.789012+00"),
    ("timestamp with time zone", "+294276-12-31T23:59:59.999999Z", "294276-12-31 23:59:59.999999+00"),
    ("timestamp with time zone", "+12000-01-01T00:00:00.000000Z", "12000-01-01 00:00:00+00"),
    ("timestamp with time zone", "-4712-01-01T00:00:00.000000Z", "4713-01-01 00:00:00+00 BC"),
    ("timestamp with time zone", "0000-06-01T00:00:00.000000Z", "0001-06-01 00:00:00+00 BC"),
    ("timestamp with time zone[]", ["+12000-01-01T00:00:00.000000Z"], '{"12000-01-01 00:00:00+00"}'),
    ("date", 20512, "2026-02-28"),
    ("date", 2145042905, "5874897-12-31"),
    ("date", -2440550, "4713-01-01 BC"),
    ("date", 2146033979, "infinity"),
    ("date", -2147472691, "-infinity"),
    ("date", -622191234, "infinity"),  # r
    ("date", -625821272, "-infinity"),  # r
)


def test_a_value_at_the_edge_of_its_type_lands(own_database: Database) -> None:
    differ = []
    with closing(psycopg2.connect(own_database.dsn, options="-c timezone=UTC")) as conn:
        conn.autocommit = True
        for declared, arrives, lands in LANDS:
            if (found := _landed(conn, declared, arrives)) != lands:
                differ.append((declared, arrives, lands, found))
    assert not differ, "\n".join(map(str, differ))


def test_null_lands_as_null_in_columns_and_arrays_of_each_of_these_types(own_database: Database) -> None:
    scalars = {declared for declared, *_ in LANDS if not declared.endswith("[]")}
    with closing(psycopg2.connect(own_database.dsn)) as conn:
        conn.autocommit = True
        found = {declared: _landed(conn, declared, None) for declared in scalars}
        found |= {f"{declared}[]": _landed(conn, f"{declared}[]", [None]) for declared in scalars}
    assert found == dict.fromkeys(scalars, "None") | {f"{declared}[]": "{NULL}" for declared in scalars}


def _landed(conn: Any, declared: str, arrives: Any) -> str:
    told = sql.SQL("{}::jsonb").format(sql.Literal(orjson.dumps([arrives]).decode()))
    query = sql.SQL("SELECT ({})::text").format(column_type(declared).value(told, 0))
    with conn.cursor() as cursor:
        try:
            cursor.execute(query)
        except psycopg2.Error as error:
            return str(error.pgcode)
        return str(cursor.fetchone()[0])
