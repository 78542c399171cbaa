"""The query of a re-snapshot reads all rows and writes its marker once, or does neither."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final
from uuid import UUID

import psycopg2
import pytest
from psycopg2.extensions import connection

from services.cdc.change_detection.snapshot_marker import condition
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import execute

#: And which are generated.
COLUMNS: Final = {'a"b': False, "it's": True, "c%s": False}
NAME: Final = '"a.b"."of ""it\'s"""'
MAKE: Final = f"""
    CREATE SCHEMA "a.b";
    CREATE TABLE {NAME} ("a""b" int, gone int, "it's" int GENERATED ALWAYS AS (1) STORED, "c%s" int);
    ALTER TABLE {NAME} DROP gone
"""
FILL: Final = f"""INSERT INTO {NAME} ("a""b", "c%s") SELECT i, -i FROM generate_series(1, 3000) i"""  # noqa: S608
#: As Debezium has it where it made its slot itself.
READ_ONLY: Final = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE"


@pytest.fixture
def conn(database: Database) -> Iterator[connection]:
    execute(database.dsn, MAKE)
    with closing(psycopg2.connect(database.dsn)) as opened:
        yield opened


def _read(conn: connection) -> list[tuple[int, ...]]:
    with conn, conn.cursor() as cursor:
        cursor.execute("SELECT %s::regclass::oid::int8", (NAME,))
        ((oid,),) = cursor.fetchall()
        conn.rollback()
        cursor.execute(READ_ONLY)
        asked = condition(UUID(int=7), oid=oid, schema="a.b", name='of "it\'s"', columns=COLUMNS)
        assert asked["data-collection"] == NAME
        cursor.execute(asked["filter"])
        assert [column.name for column in cursor.description or ()] == ['a"b', "c%s"]
        return cursor.fetchall()


def _log(conn: connection) -> int:
    with conn, conn.cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_insert_lsn() - '0/0'")
        ((at,),) = cursor.fetchall()
    return int(at)


def _least_written(conn: connection, expected: list[tuple[int, ...]]) -> int:
    """Return the least WAL bytes of five readings: other processes of the server write too."""
    written = []
    for _ in range(5):
        before = _log(conn)
        assert sorted(_read(conn)) == expected
        written.append(_log(conn) - before)
    return min(written)


def test_snapshot_query_reads_all_rows_and_writes_one_marker(conn: connection) -> None:
    with conn, conn.cursor() as cursor:
        cursor.execute(FILL)
    assert 0 < _least_written(conn, [(i, -i) for i in range(1, 3001)]) < 1000


def test_snapshot_query_of_an_empty_table_writes_a_marker(conn: connection) -> None:
    assert 0 < _least_written(conn, []) < 1000


@pytest.mark.parametrize("change", ["ADD later int", 'DROP "c%s"', 'RENAME "c%s" TO d'])
def test_snapshot_query_reads_nothing_and_fails_when_the_columns_have_changed(
    conn: connection, change: str
) -> None:
    with conn, conn.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {NAME} {change}")
    with pytest.raises((psycopg2.errors.DivisionByZero, psycopg2.errors.UndefinedColumn)):
        _read(conn)
