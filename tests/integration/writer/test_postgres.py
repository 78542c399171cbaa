"""Connections shared within a process: no user ends another user's transaction."""

import threading

import pytest

from services.writer.postgres.pool import transaction
from tests.fixtures.writer import Bench


def test_two_threads_of_the_driver_do_not_end_each_others_transactions(bench: Bench) -> None:
    """The driver relays, claims, compares and advances in threads that overlap."""

    def other() -> None:
        with transaction(bench.database, "driver") as conn, conn.cursor() as cursor:
            cursor.execute("SELECT 1")

    with transaction(bench.database, "driver") as conn:
        with conn.cursor() as cursor:
            cursor.execute("UPDATE onramp.ledger SET next_offset = 5")
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(10)
    assert bench.ledger() == 5


def test_a_connection_that_the_server_ended_is_replaced(bench: Bench) -> None:
    for _ in range(2):
        with transaction(bench.database, "land") as conn, conn.cursor() as cursor:
            cursor.execute("SELECT 1")
        bench.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.mark.parametrize("role", ["land", "driver"])
def test_an_error_in_the_block_rolls_back(bench: Bench, role: str) -> None:
    def fail() -> None:
        with transaction(bench.database, role) as conn, conn.cursor() as cursor:
            cursor.execute("UPDATE onramp.ledger SET next_offset = 5")
            raise RuntimeError("bang")

    with pytest.raises(RuntimeError, match="bang"):
        fail()
    assert bench.ledger() == 0


def test_sessions_have_an_application_name_a_safe_search_path_and_timeouts(bench: Bench) -> None:
    names = ["application_name", "search_path", "statement_timeout", "lock_timeout"]
    names += ["idle_in_transaction_session_timeout"]
    with transaction(bench.database, "land") as conn, conn.cursor() as cursor:
        found = {}
        for name in names:
            cursor.execute(f"SHOW {name}")
            found[name] = cursor.fetchone()[0]
    assert found["application_name"].startswith("onramp-writer")
    assert "public" not in found["search_path"]
    assert "0" not in [found[name] for name in names[2:]]
