"""Jobs whose database freezes, fails or waits show the reason; other jobs continue."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg2
import pytest

from services.admin.jobs.job_session import JobSession
from services.admin.jobs.runner import JobRunner
from services.writer.postgres.migrations import migrate
from shared.errors import InfrastructureError
from shared.registry.memory import MemoryRegistry
from stack.postgres import Postgres
from tests.fixtures.silent_servers import Stopped
from tests.fixtures.writer import database_of, eventually, execute, rows, set_for_database
from tests.integration.admin.job_bench import EVERY, Desk, running

#: Two of five events are of another type, and for the other database.
OTHERS = """
    UPDATE onramp_admin.parked SET destination = 'frozen.events.x', event_name = 'x' WHERE "offset" < 2
"""
FILTERS = "UPDATE onramp_admin.jobs SET filters = '{}', next_at = now() WHERE id = {}"
#: As an operator's program does with transactions that wait for long.
END_IDLE = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'onramp-admin' AND state = 'idle in transaction'
"""
WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@contextmanager
def ended(server: Stopped) -> Iterator[None]:
    """Continue the server when the block has failed, so that the runner can end."""
    try:
        yield
    finally:
        server.go_on()


@contextmanager
def locked(dsn: str, table: str) -> Iterator[None]:
    """Lock the table during the block, so that queries wait."""
    with closing(psycopg2.connect(dsn)) as holder, holder.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table}")
        yield


@pytest.mark.timeout(300)
def test_a_destination_that_freezes_in_mid_statement_stops_no_other_job(
    desk: Desk, own_postgres: Postgres
) -> None:
    server = Stopped(own_postgres)
    migrate(database_of(own_postgres.dsn))
    execute(desk.dsn, OTHERS)
    desk.session = JobSession(desk.session.conn, {"onramp": desk.stage.dsn, "frozen": own_postgres.dsn})
    its_own = desk.start("replay", event_name="x")
    runner = JobRunner(desk.dsn, desk.session.databases, MemoryRegistry({}))
    with running(runner), ended(server):
        with locked(own_postgres.dsn, "onramp.replays"):
            eventually(lambda: rows(own_postgres.dsn, WAITS) == [(1,)])
            server.stop()
            other = desk.start("rehearse")
            eventually(lambda: desk.asked() == [2, 3, 4])
            desk.answer("landed", *EVERY)
            eventually(lambda: desk.job(other).state == "done")
            eventually(lambda: "frozen does not answer" in str(desk.job(its_own).waits))
            server.go_on()
        staged = 'SELECT "offset" FROM onramp.replays ORDER BY 1'
        eventually(lambda: rows(own_postgres.dsn, staged) == [(0,), (1,)])
        eventually(lambda: desk.job(its_own).waits is None)


def test_a_job_that_fails_for_good_says_why_and_stops_no_other(desk: Desk) -> None:
    bad = desk.start("discard", event_name="x")
    execute(desk.dsn, FILTERS.format('{"offset": "x"}', bad))
    other = desk.start("discard")
    for _ in range(4):
        desk.session.work()
    assert desk.job(other).state == "done"
    assert "SQLSTATE 22P02" in str(desk.job(bad).waits)
    execute(desk.dsn, FILTERS.format("{}", bad))
    for _ in range(2):
        desk.session.work()
    assert (desk.job(bad).state, desk.job(bad).waits) == ("done", None)


def test_a_job_that_waits_behind_a_lock_pauses_for_longer_than_it_took(desk: Desk) -> None:
    desk.start()
    desk.session.work()  # marked
    with locked(desk.stage.dsn, "onramp.replays"):
        assert desk.session.work()
        assert not desk.session.work()  # the time is others'


def test_a_step_is_not_ended_by_its_roles_own_limit_of_idle_transactions(desk: Desk) -> None:
    set_for_database(desk.dsn, {"idle_in_transaction_session_timeout": "50"})
    its_own = desk.start()
    with closing(JobSession.open(desk.dsn, desk.session.databases)) as session:
        session.work()  # marked
        with locked(desk.stage.dsn, "onramp.replays"):
            session.work()
        assert desk.job(its_own).waits == "database onramp: SQLSTATE 55P03"
        assert not session.conn.closed


def test_a_job_whose_step_loses_its_connection_comes_again_after_the_others(desk: Desk) -> None:
    bad = desk.start()
    desk.session.work()  # marked
    other = desk.start("discard", event_name="x")  # of nothing: done when it has its turn
    with locked(desk.stage.dsn, "onramp.replays"), ThreadPoolExecutor(1) as beside:
        step = beside.submit(desk.session.work)
        eventually(lambda: rows(desk.stage.dsn, WAITS) == [(1,)])
        assert rows(desk.dsn, END_IDLE) == [(1,)]
        with pytest.raises(InfrastructureError):
            step.result()
    with closing(JobSession.open(desk.dsn, desk.session.databases)) as session:
        assert session.work()
        assert desk.job(other).state == "done"
    assert "retrying" in str(desk.job(bad).waits)
