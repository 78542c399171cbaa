"""A busy database is not cancelled; a silent one is, in every phase of a transaction."""

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace

import psutil
import psycopg2
import pytest
from psycopg2.extensions import make_dsn

from services.writer.postgres import pool
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from shared.postgres import answering
from stack.ports import LOOPBACK
from stack.postgres import Postgres
from tests.fixtures.fix_postgres import FAST
from tests.fixtures.running_part import started
from tests.fixtures.silent_servers import Stopped, black_holes
from tests.fixtures.writer import database_of, eventually, rows

_SILENT_S = 0.5


@pytest.fixture(scope="module")
def module_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server for the tests of this module, to stop where it stands: each lets it go on."""
    with started(Postgres(tmp_path_factory.mktemp("silence") / "postgres", settings=FAST)) as server:
        yield server


@pytest.fixture
def database(module_postgres: Postgres) -> Iterator[Database]:
    yield replace(database_of(module_postgres.dsn), liveness_timeout_seconds=_SILENT_S)
    pool.close_all()


@pytest.fixture
def server(module_postgres: Postgres) -> Iterator[Stopped]:
    server = Stopped(module_postgres)
    yield server
    server.go_on()


def pass_patiences(database: Database, count: int) -> None:
    """Return when the watch itself, however slow, has counted so many patiences."""
    with black_holes(1) as [dsn]:
        for _ in range(count):
            with (
                pytest.raises(InfrastructureError, match="does not answer"),
                transaction(replace(database, dsn=dsn), "land"),
            ):
                pass


@contextmanager
def waiting(database: Database) -> Iterator[None]:
    """A statement of `database` waits for a lock over the block, and ends well after it."""
    with closing(psycopg2.connect(database.dsn)) as holder, ThreadPoolExecutor() as beside:
        with holder.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(1)")
        waiter = beside.submit(_wait_for_lock, replace(database, options="-c lock_timeout=0"))
        try:
            locks = "SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            eventually(lambda: waiter.done() or rows(database.dsn, locks) == [(1,)])
            yield
        finally:
            holder.rollback()
            with holder.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(1)")
        waiter.result()


def _wait_for_lock(database: Database) -> None:
    with transaction(database, "land") as conn, conn.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(1)")


def test_a_statement_may_take_longer_than_a_silence(module_postgres: Postgres, database: Database) -> None:
    log = module_postgres.data_dir.parent / "postgres.log"
    lines = len(log.read_text("utf-8").splitlines())
    with waiting(database):
        pass_patiences(database, 4)
    said = "\n".join(log.read_text("utf-8").splitlines()[lines:])
    assert "startup packet" not in said  # who asks and goes away is no line of its log
    assert "protocol" not in said


def test_a_database_whose_name_leads_nowhere_else_is_asked_at_its_address(database: Database) -> None:
    named = replace(database, dsn=make_dsn(database.dsn, host="db.example.invalid", hostaddr=LOOPBACK))
    with closing(psycopg2.connect(named.dsn)) as conn:
        assert conn.info.host == "db.example.invalid"
    with waiting(named):
        pass_patiences(named, 4)


@pytest.mark.timeout(300)
def test_a_server_that_starts_no_session_is_alive_while_a_session_answers(
    database: Database, module_postgres: Postgres
) -> None:
    listener = psutil.Process(module_postgres.pid)
    with transaction(database, "land") as conn, conn.cursor() as cursor:
        listener.suspend()
        try:
            for _ in range(6 * 10):
                cursor.execute("SELECT pg_sleep(%s)", (_SILENT_S / 10,))
        finally:
            listener.resume()


@pytest.mark.timeout(300)
def test_a_statement_of_a_stopped_server_ends(database: Database, server: Stopped) -> None:
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


@pytest.mark.timeout(300)
def test_a_copy_into_a_stopped_server_ends(database: Database, server: Stopped) -> None:
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


@pytest.mark.timeout(300)
def test_connection_to_a_black_hole_is_closed_as_unresponsive() -> None:
    with black_holes(1) as [dsn]:
        hole = replace(database_of(dsn), liveness_timeout_seconds=_SILENT_S)
        with pytest.raises(InfrastructureError, match="does not answer"), transaction(hole, "land"):
            pass


@pytest.mark.timeout(90)
def test_connection_that_hangs_before_libpq_starts_its_timeout_is_closed_as_unresponsive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A resolver that hangs is before libpq's own limit begins to count.
    monkeypatch.setattr(answering, "_opening", lambda *_: None)
    with black_holes(1) as [dsn]:
        nowhere = replace(database_of(dsn), liveness_timeout_seconds=_SILENT_S)
        with pytest.raises(InfrastructureError, match="does not answer"), transaction(nowhere, "land"):
            pass
