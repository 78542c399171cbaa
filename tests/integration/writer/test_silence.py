"""A database that is busy is waited for; one that says nothing is cut, wherever it stands."""

import io
from collections.abc import Iterator
from dataclasses import replace

import pytest

from services.writer.pool import transaction
from services.writer.postgres import Database
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from stack.postgres import Postgres
from tests.fixtures.silent import Stopped, black_holes
from tests.fixtures.writer import database_of, rows

_SILENT_S = 0.5


@pytest.fixture
def database(own_postgres: Postgres) -> Database:
    return replace(database_of(own_postgres.dsn), silent_s=_SILENT_S)


@pytest.fixture
def server(own_postgres: Postgres) -> Iterator[Stopped]:
    server = Stopped(own_postgres)
    yield server
    server.go_on()


def test_a_statement_may_take_longer_than_a_silence(database: Database) -> None:
    with transaction(database, "land") as conn, conn.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)", (4 * _SILENT_S,))
        assert cursor.rowcount == 1


@pytest.mark.timeout(60)
def test_f47_a_statement_of_a_stopped_server_ends(database: Database, server: Stopped) -> None:
    def ask() -> None:
        with transaction(database, "land") as conn, conn.cursor() as cursor:
            server.stop()
            cursor.execute("SELECT 1")

    with pytest.raises(InfrastructureError, match="does not answer") as failed:
        ask()
    assert failed.value.fault is DATABASE_UNAVAILABLE
    with pytest.raises(InfrastructureError, match="does not answer"), transaction(database, "land"):
        pass  # no new connection either
    server.go_on()
    with transaction(database, "land") as conn, conn.cursor() as cursor:
        cursor.execute("SELECT 1")


@pytest.mark.timeout(60)
def test_f47_a_copy_into_a_stopped_server_ends(database: Database, server: Stopped) -> None:
    class Endless(io.RawIOBase):
        """Lines without end; the server is stopped on the way."""

        given = 0

        def read(self, _: int = -1) -> bytes:
            self.given += 1
            if self.given == 3:
                server.stop()
            return b"x" * 1023 + b"\n"

    def copy() -> None:
        with transaction(database, "land") as conn, conn.cursor() as cursor:
            cursor.execute("CREATE TABLE public.t (line text)")
            cursor.copy_expert("COPY public.t FROM STDIN", Endless())

    with pytest.raises(InfrastructureError, match="does not answer"):
        copy()
    server.go_on()
    assert rows(database.dsn, "SELECT to_regclass('public.t')::text") == [(None,)]


@pytest.mark.timeout(60)
def test_f47_a_connection_to_a_black_hole_is_given_up() -> None:
    with black_holes(1) as [dsn]:
        hole = replace(database_of(dsn), silent_s=_SILENT_S)
        with pytest.raises(InfrastructureError, match="does not answer"), transaction(hole, "land"):
            pass
