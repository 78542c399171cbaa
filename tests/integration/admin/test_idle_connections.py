"""Connections that stay open between uses: which are used again, and which are not."""

from contextlib import suppress

import psycopg2
from psycopg2.extensions import connection

from shared.postgres.idle_connections import IdleConnections
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import eventually, execute, rows


def test_a_connection_is_used_again_unless_it_has_ended_or_is_in_a_transaction(database: Database) -> None:
    idle = IdleConnections()

    def lent(options: str = "") -> int:
        with idle.lent("database x", database.dsn, 5, name="test", options=options) as conn:
            return backend_of(conn)

    first = lent()
    assert lent() == first
    assert lent("-c lock_timeout=1") != first

    execute(database.dsn, f"SELECT pg_terminate_backend({first}, 5000)")
    second = lent()
    assert second != first

    with idle.lent("database x", database.dsn, 5, name="test", options="") as conn, conn.cursor() as cursor:
        cursor.execute("SELECT 1")
    third = lent()
    assert third != second

    with suppress(psycopg2.Error), idle.lent("database x", database.dsn, 5, name="test", options=""):
        raise psycopg2.Error
    assert lent() != third


def test_two_uses_at_once_have_two_connections_and_one_stays(database: Database) -> None:
    idle = IdleConnections()
    one = idle.lent("database x", database.dsn, 5, name="test_twice", options="")
    other = idle.lent("database x", database.dsn, 5, name="test_twice", options="")
    with one as first, other as second:
        assert backend_of(first) != backend_of(second)
    eventually(lambda: sessions(database.dsn) == 1)


def backend_of(conn: connection) -> int:
    """Return the server's process of a connection."""
    return conn.info.backend_pid


def sessions(dsn: str) -> int:
    """Return the number of sessions of the last test."""
    ((count,),) = rows(dsn, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'test_twice'")
    return int(count)
