"""The embedded Postgres: password, TCP, durable data, and no remaining process."""

import os
import shutil
from pathlib import Path

import psutil
import psycopg2
import pytest
from psycopg2.extensions import make_dsn

from stack import postgres
from stack.errors import StackError
from stack.ports import free_port
from stack.postgres import Postgres
from stack.process_groups import family_of, is_alive
from tests.fixtures.fix_postgres import FAST, Database, HasDsn
from tests.fixtures.running_part import started


def run(dsn: str, statement: str) -> list[tuple[object, ...]]:
    connection = psycopg2.connect(dsn)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


def test_a_database_of_ones_own_is_empty_and_utf8(database: Database) -> None:
    assert run(database.dsn, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
    assert run(database.dsn, "SELECT current_setting('server_encoding')") == [("UTF8",)]


def test_a_wrong_password_is_refused(postgres: HasDsn) -> None:
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(make_dsn(postgres.dsn, password="guess"))


def test_data_survives_a_stop_and_a_kill(own_postgres: Postgres) -> None:
    dsn = own_postgres.dsn
    run(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    own_postgres.stop()
    own_postgres.start()
    own_postgres.wait_ready()
    assert own_postgres.dsn == dsn
    own_postgres.kill()
    own_postgres.start()
    own_postgres.wait_ready()
    assert run(dsn, "SELECT answer FROM kept") == [(42,)]


def test_the_same_data_can_move_to_another_port(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    for port in ports:
        server = Postgres(tmp_path / "postgres", port=port)
        try:
            server.start()
            server.wait_ready()
            run(server.dsn, f"CREATE TABLE port_{port} ()")
            tables = run(server.dsn, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        finally:
            server.stop()
    assert sorted(tables) == sorted((f"port_{port}",) for port in ports)


def test_stop_ends_open_connections_and_leaves_no_process(own_postgres: Postgres) -> None:
    connection = psycopg2.connect(own_postgres.dsn)
    family = family_of(psutil.Process(own_postgres.pid))
    assert len(family) > 3
    own_postgres.stop()
    connection.close()
    assert [each for each in family if is_alive(each)] == []


def test_kill_leaves_no_process(own_postgres: Postgres) -> None:
    connection = psycopg2.connect(own_postgres.dsn)
    family = family_of(psutil.Process(own_postgres.pid))
    own_postgres.kill()
    connection.close()
    assert [each for each in family if is_alive(each)] == []


def test_a_closed_folder_above_the_data_is_no_obstacle(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    server = Postgres(closed / "postgres")
    try:
        server.start()
        server.wait_ready()
        assert run(server.dsn, "SELECT 1") == [(1,)]
    finally:
        server.stop()
    assert closed.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres under another account")
def test_a_closed_folder_above_the_programs_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    programs = postgres.binaries()
    package = programs.parents[1]
    shutil.copytree(package, closed / package.name)
    libraries = f"{package.name}.libs"  # the wheel's own, beside its package
    shutil.copytree(package.parent / libraries, closed / libraries)
    moved = closed / programs.relative_to(package.parent)
    monkeypatch.setattr(postgres, "binaries", lambda: moved)
    with started(Postgres(closed / "data", settings=FAST)) as server:
        assert run(server.dsn, "SELECT 1") == [(1,)]
    assert closed.stat().st_mode & 0o777 == 0o700


def test_a_start_that_fails_says_why(own_postgres: Postgres, tmp_path: Path) -> None:
    second = Postgres(tmp_path / "second", port=own_postgres.port)
    try:
        second.start()
        with pytest.raises(StackError) as caught:
            second.wait_ready()
    finally:
        second.stop()
    assert "postgres ended with exit code 1" in str(caught.value)
    assert "Address already in use" in caught.value.log_tail
