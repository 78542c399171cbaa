"""Column types of a source: the values that changes carry, from a snapshot and from the stream."""

from contextlib import closing
from typing import Any, Final, NamedTuple

import orjson
import psycopg2
from psycopg2 import sql

from services.cdc.agent.source_sql import SourceDatabase
from services.cdc.merge.column_types import column_type
from services.cdc.setup.check_sql import facts
from tests.fixtures.sources import Captured, flows
from tests.fixtures.writer import eventually, set_for_database

#: A type, and SQL of an ordinary value, an extreme one and, where there is one, an empty one.
TYPES: Final = {
    "smallint": ("7", "-32768", "0"),
    "integer": ("7", "-2147483648", "0"),
    "bigint": ("7", "-9223372036854775808", "0"),
    "real": ("1.5", "'-Infinity'", "'NaN'"),
    "double precision": ("1.5", "1.7976931348623157e308", "'Infinity'"),
    "numeric": ("'-Infinity'", "12345678901234567890.123456789012345678901", "'NaN'"),
    "numeric(30)": ("1", "'NaN'", "-1"),
    "numeric(10,2)": ("1.50", "-99999999.99", "0"),
    "money": ("'1.50'", "'-92233720368547758.08'", "'0'"),
    "boolean": ("true", "false", "false"),
    "text": ("'a'", "E'\\u00e9\\n\\\\x41'", "''"),
    "character varying(10)": ("'a'", "'0123456789'", "''"),
    "character(3)": ("'a'", "'abc'", "''"),
    '"char"': ("'a'", "'z'", "'0'"),
    "name": ("'a'", "repeat('n', 63)", "''"),
    "bytea": ("'\\x0102'", "'\\x00ff5c'", "''"),
    "uuid": ("'00000000-0000-0000-0000-000000000001'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "NULL"),
    "json": ("'{\"a\": 1}'", '\'{"a": 1, "a": 1e99}\'', "'{}'"),
    "jsonb": ("'{\"a\": 1}'", "'[12345678901234567890.5]'", "'null'"),
    "date": ("'2026-02-28'", "'-infinity'", "'0001-01-01'"),
    "time without time zone": ("'12:34:56.789012'", "'24:00'", "'00:00'"),
    "timestamp without time zone": ("'2026-02-28 12:34:56.789012'", "'infinity'", "'0044-03-15 BC'"),
    "timestamp(3) without time zone": ("'2026-02-28 12:34:56.789'", "'294276-12-31 23:59:59.999'", "NULL"),
    "timestamp with time zone": (
        "'2026-02-28 12:34:56.789012+02'",
        "'294276-12-31 23:59:59.999999Z'",
        "'0044-03-15 01:02:03.5Z BC'",
    ),
    "inet": ("'10.0.0.1'", "'2001:db8::1/64'", "'0.0.0.0/0'"),
    "cidr": ("'10.0.0.0/8'", "'2001:db8::/32'", "'0.0.0.0/0'"),
    "macaddr": ("'08:00:2b:01:02:03'", "'ff:ff:ff:ff:ff:ff'", "NULL"),
    "macaddr8": ("'08:00:2b:01:02:03:04:05'", "'ff:ff:ff:ff:ff:ff:ff:ff'", "NULL"),
    "oid": ("7", "4294967295", "0"),
    "int4range": ("'[1,5)'", "'(,)'", "'empty'"),
    "int8range": ("'[1,5)'", "'(,)'", "'empty'"),
    "numrange": ("'[1.5,5]'", "'(,)'", "'empty'"),
    "tsrange": ("'[2026-01-01,2026-01-02)'", "'(,)'", "'empty'"),
    "tstzrange": ("'[2026-01-01Z,2026-01-02Z)'", "'(,)'", "'empty'"),
    "daterange": ("'[2026-01-01,2026-01-02)'", "'(,)'", "'empty'"),
    "tsvector": ("'a:1 b:2'", "'a:1A,16383B'", "''"),
    "point": ("'(1,2)'", "'(1e300,-0.1)'", "'(0,0)'"),
    "bit(1)": ("B'1'", "B'0'", "NULL"),
    "tsquery": ("'a & b'", "'!a | b:*'", "''"),
    "pg_lsn": ("'16/B374D848'", "'FFFFFFFF/FFFFFFFF'", "'0/0'"),
    "jsonpath": ("'$.a'", "'$[*] ? (@.b > 1)'", "NULL"),
    "int4multirange": ("'{[1,5),[7,9)}'", "'{(,)}'", "'{}'"),
    "datemultirange": ("'{[2026-01-01,2026-01-02)}'", "'{(,)}'", "'{}'"),
    "integer[]": ("'{1,2}'", "'{NULL,-2147483648}'", "'{}'"),
    "text[]": ("'{a,b}'", '\'{NULL,"","a,b"}\'', "'{}'"),
    "boolean[]": ("'{t,f}'", "'{NULL}'", "'{}'"),
    "uuid[]": ("'{00000000-0000-0000-0000-000000000001}'", "'{NULL}'", "'{}'"),
    "numeric(10,2)[]": ("'{1.50}'", "'{-99999999.99,NULL}'", "'{}'"),
    "interval": ("'1 mon'", "'-1 year 2 mons -3 days +04:05:06.000007'", "'0'"),
    "interval day to second": ("'1 day 02:03:04.5'", "'-100000000 days'", "NULL"),
    "date[]": ("'{2026-02-28}'", "'{9999-12-31,NULL,0001-01-01}'", "'{}'"),
    "timestamp without time zone[]": ("'{2026-02-28 12:34:56.789012}'", "'{1582-10-15,NULL}'", "'{}'"),
    "timestamp with time zone[]": (
        "'{2026-02-28 12:34:56.789012+02}'",
        "'{9999-12-31Z,NULL,0001-01-01Z}'",
        "'{}'",
    ),
    "timestamp(3) without time zone[]": ("'{2026-02-28 12:34:56.789}'", "'{1582-10-15,NULL}'", "'{}'"),
    "time(3) without time zone": ("'12:34:56.789'", "'23:59:59.999'", "NULL"),
    "timestamp(3) with time zone": ("'2026-02-28 12:34:56.789+02'", "'9999-12-31Z'", "'-infinity'"),
    "bytea[]": ("'{\"\\\\x0102\"}'", "'{NULL}'", "'{}'"),
    "smallint[]": ("'{1}'", "'{NULL,-32768}'", "'{}'"),
    "bigint[]": ("'{1}'", "'{NULL,-9223372036854775808}'", "'{}'"),
    "real[]": ("'{1.5}'", "'{NULL,-Infinity}'", "'{}'"),
    "double precision[]": ("'{1.5}'", "'{NULL,1.7976931348623157e308,NaN}'", "'{}'"),
    "json[]": ("'{\"{}\"}'", "'{NULL}'", "'{}'"),
    "jsonb[]": ("'{\"[1, 2]\"}'", "'{NULL}'", "'{}'"),
    "character varying(10)[]": ("'{a}'", "'{NULL,\"\"}'", "'{}'"),
    "character(3)[]": ("'{a}'", "'{NULL,abc}'", "'{}'"),
    "inet[]": ("'{10.0.0.1}'", "'{NULL,2001:db8::1/64}'", "'{}'"),
    "cidr[]": ("'{10.0.0.0/8}'", "'{NULL}'", "'{}'"),
    "macaddr[]": ("'{08:00:2b:01:02:03}'", "'{NULL}'", "'{}'"),
    "oid[]": ("'{7}'", "'{NULL,4294967295}'", "'{}'"),
    "int4range[]": ("'{\"[1,5)\"}'", "'{NULL,empty}'", "'{}'"),
    "numrange[]": ("'{\"[1.5,5]\"}'", "'{NULL,empty}'", "'{}'"),
    '"char"[]': ("'{a}'", "'{NULL}'", "'{}'"),
    # Of the source's own.
    "app.mood": ("'sad'", "'61'", "NULL"),
    "app.mood[]": ("'{sad}'", "'{61,sad}'", "'{}'"),
    "app.pair": ("'(1,a)'", '\'(,"a ""b"" c")\'', "'(,)'"),
    "app.span": ("'[1.5,2)'", "'(,)'", "'empty'"),
    "app.price": ("1.50", "-99999999.99", "0"),
    "app.moment": ("'2026-02-28 12:34:56.789'", "'0001-01-01'", "NULL"),
    "app.late_moment": ("'2026-02-28 12:34:56.789'", "'0001-01-01'", "NULL"),
    "app.bytes": ("'\\x0102'", "'\\x00ff5c'", "''"),
    "app.numbers": ("'{1,2}'", "'{NULL}'", "'{}'"),
    "app.feeling": ("'sad'", "'61'", "NULL"),
}
OWN: Final = (
    "CREATE TYPE app.mood AS ENUM ('sad', '61')",
    "CREATE TYPE app.pair AS (a int, b text)",
    "CREATE TYPE app.span AS RANGE (subtype = float8)",
    "CREATE DOMAIN app.price AS numeric(10, 2)",
    "CREATE DOMAIN app.moment AS timestamp(3)",
    "CREATE DOMAIN app.late_moment AS app.moment CHECK (value < '9999-01-01')",
    "CREATE DOMAIN app.bytes AS bytea",
    "CREATE DOMAIN app.numbers AS int[]",
    "CREATE DOMAIN app.feeling AS app.mood",
    "CREATE TYPE app.geometry AS ENUM ('round')",
)
#: Whose changes tell too little: refused, with the column and its type.
REFUSED: Final = (
    *("bit(8)", "bit varying(8)", "time with time zone", "time with time zone[]"),
    *("line", "lseg", "box", "path", "polygon", "circle"),
    *("interval[]", "interval(3)[]", "money[]", "name[]", "point[]", "bit(1)[]", "xid8"),
    *("time without time zone[]", "tsvector[]", "pg_lsn[]"),
    *(
        "app.pair[]",
        "app.price[]",
        "app.span[]",
        "app.geometry",
        "app.geometry[]",
        "public.vector(3)",
        "public.vector[]",
    ),
)

#: What a database has of its own, by which values would come out otherwise, and what they are compared by.
SETTINGS: Final = {
    "bytea_output": ("escape", "hex"),
    "datestyle": ("SQL, DMY", "ISO"),
    "extra_float_digits": ("-10", "1"),
    "intervalstyle": ("sql_standard", "postgres"),
    "quote_all_identifiers": ("on", "off"),
    "timezone": ("Asia/Tokyo", "UTC"),
}


class Seen(NamedTuple):
    """A column's value at the source and in its change, both as text."""

    type: str
    op: str
    row: int
    theirs: str | None
    ours: str | None


def _insert(first: int) -> str:
    rows = [[values[n] for values in TYPES.values()] for n in range(3)] + [["NULL"] * len(TYPES)]
    texts = (f"({first + n}, {', '.join(row)})" for n, row in enumerate(rows))
    return "; ".join(f"INSERT INTO app.types VALUES {text}" for text in texts)  # noqa: S608


def types_of(shop: Captured, table: str) -> dict[str, str]:
    """Return the types of a table's columns by name, as the agent has them."""
    source = SourceDatabase(shop.name, shop.source, shop.dsn)
    (found,) = (seen for seen in source.inspect().tables if seen.full_name == table)
    source.close()
    return {column.name: column.type for column in found.columns}


def published(conn: Any, type_: str, change: dict[str, Any], column: str) -> str | None:
    if column not in change["after"]:
        return "not in the change"
    told = sql.SQL("{}::jsonb").format(sql.Literal(orjson.dumps(change["after"][column]).decode()))
    query = sql.SQL("SELECT ({})::text").format(
        column_type(type_).value(sql.SQL("jsonb_build_array({})").format(told), 0)
    )
    with conn.cursor() as cursor:
        try:
            cursor.execute(query)
            return str(found) if (found := cursor.fetchone()[0]) is not None else None
        except psycopg2.Error as error:
            return f"{error.pgcode}: {change['after'][column]!r}"


def test_each_type_comes_out_as_it_is_from_snapshot_and_stream(shop: Captured) -> None:
    columns = ", ".join(f"c{n} {type_}" for n, type_ in enumerate(TYPES))
    shop.execute(
        *OWN,
        f"CREATE TABLE app.types (id int PRIMARY KEY, {columns})",
        _insert(1),
    )
    set_for_database(shop.dsn, {setting: own for setting, (own, _) in SETTINGS.items()})
    reconciler = shop.new_reconciler()
    flows(reconciler)
    shop.execute(_insert(11))
    eventually(lambda: len(shop.changes("types")) == 8, 60)
    reconciler.close()

    differ = []
    usual = "; ".join(f"SET {setting} = '{value}'" for setting, (_, value) in SETTINGS.items())
    types = types_of(shop, "app.types")
    with closing(psycopg2.connect(shop.published, options="-c timezone=UTC")) as conn:
        conn.autocommit = True
        for change in shop.changes("types"):
            for n, type_ in enumerate(TYPES):
                row = change["after"]["id"]
                query = f"{usual}; SELECT c{n}::text FROM app.types WHERE id = %s"  # noqa: S608
                ((theirs,),) = shop.ask(query, row)
                seen = Seen(
                    type_, change["op"], row, theirs, published(conn, types[f"c{n}"], change, f"c{n}")
                )
                if seen.theirs != seen.ours:
                    differ.append(seen)
    assert {change["op"] for change in shop.changes("types")} == {"r", "c"}
    assert not differ, "\n".join(map(str, differ))


def test_a_column_of_a_type_whose_changes_tell_too_little_is_named(shop: Captured) -> None:
    refused = ", ".join(f"r{n} {type_}" for n, type_ in enumerate(REFUSED))
    # One type of an extension, for all of them.
    shop.execute(*OWN, "CREATE EXTENSION vector SCHEMA public")
    shop.execute(f"CREATE TABLE app.refused (id int PRIMARY KEY, {refused})")
    told = {fact.what: fact for fact in facts(shop.name, shop.source, shop.dsn, rows=False)}
    for n, type_ in enumerate(REFUSED):
        named = f"{type_} (opaque)" if "." in type_ else type_
        (what,) = [what for what in told if what.startswith(f"app.refused.r{n} is of the type {named},")]
        assert told[what].level == "wrong"
        assert f'leave the column out ("r{n}": null), or exclude the table' in told[what].fix


def test_table_with_a_type_name_that_another_schema_defines_otherwise_is_excluded(shop: Captured) -> None:
    shop.execute(
        "CREATE DOMAIN app.size AS int",
        "CREATE TYPE app.kind AS ENUM ('a')",
        "CREATE TYPE app.same AS ENUM ('a')",
        "CREATE SCHEMA other",
        "CREATE DOMAIN other.size AS text",
        "CREATE TABLE other.kind (id int)",  # its rows are of a type of that name
        "CREATE TYPE other.same AS ENUM ('b')",
        "CREATE TABLE app.sizes (id int PRIMARY KEY, c app.size)",
        "CREATE TABLE app.kinds (id int PRIMARY KEY, c app.kind[])",
        "CREATE TABLE app.sames (id int PRIMARY KEY, c app.same, d app.same[])",
    )
    told = {
        fact.what for fact in facts(shop.name, shop.source, shop.dsn, rows=False) if fact.level == "wrong"
    }
    assert {what.partition(" is excluded: another schema has another kind")[0] for what in told} == {
        "app.sizes",
        "app.kinds",
    }
