"""Event counts: updated with each change, equal to the rows, and without lock waits."""

from contextlib import closing
from typing import Any

import psycopg2
import pytest

from services.admin.jobs.job_session import JobSession
from services.admin.store import ingester_sql, read_sql
from services.admin.store.control_sql import transaction
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.writer import execute, rows
from tests.integration.admin.parked_samples import keeping, parked, run

ROWS = """
    SELECT state, code, event_name, destination, count(*) FROM onramp_admin.events
    GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4
"""
READ = """
    SELECT relid, seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
    WHERE relid IN ('onramp_admin.parked'::regclass, 'onramp_admin.states'::regclass)
"""


def counted(dsn: str, only: list[str] | None = None) -> list[tuple[Any, ...]]:
    with transaction(dsn) as conn:
        return [tuple(count) for count in read_sql.counts(conn, 1_000, only)]


def test_counts_are_what_the_rows_say_whatever_has_changed_them(templates: Templates) -> None:
    with keeping(templates) as (dsn, ingester):
        events = [parked(n, event_name=f"n_{n % 7}", code=f"c_{n % 3}") for n in range(100)]
        ingester.keep(events, {})
        ingester.keep([*events[90:], parked(200, event_name="n_1", code="c_1")], {})  # ten of them again
        assert counted(dsn) == rows(dsn, ROWS)
        assert sum(events for *_, events in counted(dsn)) == 101
        run(dsn, "discard", code="c_1")
        run(dsn, "restore", event_name="n_2")
        execute(dsn, "UPDATE onramp_admin.states SET state = 'replaying', attempt = 1 WHERE event % 5 = 0")
        execute(dsn, "UPDATE onramp_admin.states SET state = 'replayed' WHERE event % 10 = 0")
        execute(dsn, "UPDATE onramp_admin.states SET gone = true")
        ingester.keep([parked(300, event_name="n_1", code="c_1")], {})
        assert len({state for state, *_ in counted(dsn)}) == 4
        assert counted(dsn) == rows(dsn, ROWS)
        session = JobSession.open(dsn)
        session.sum_up()
        ((left,),) = rows(dsn, "SELECT count(*) - count(DISTINCT (group_id, state)) FROM onramp_admin.moves")
        assert left == 0
        session.close()
        assert counted(dsn) == rows(dsn, ROWS)


def test_a_change_that_is_rolled_back_is_not_counted(templates: Templates) -> None:
    with keeping(templates) as (dsn, ingester), closing(psycopg2.connect(dsn)) as conn:
        ingester.keep([parked(n) for n in range(3)], {})
        with conn.cursor() as cursor:
            cursor.execute("UPDATE onramp_admin.states SET state = 'discarded'")
        conn.rollback()
        assert counted(dsn) == [("open", "x", None, "onramp.s.t", 3)]


def test_counting_reads_no_event(templates: Templates) -> None:
    with keeping(templates) as (dsn, ingester):
        ingester.keep([parked(n, event_name=f"n_{n % 7}") for n in range(1_000)], {})
        run(dsn, "discard", event_name="n_1")
        with transaction(dsn) as conn, conn.cursor() as cursor:
            cursor.execute(READ)
            before = cursor.fetchall()  # what this connection has not told yet
            assert len(read_sql.counts(conn, 1_000)) == 7
            cursor.execute(READ)
            assert cursor.fetchall() == before


def test_event_beyond_the_group_limit_is_counted_by_its_own_event_name(
    templates: Templates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingester_sql, "MAX_GROUPS", 2)
    with keeping(templates) as (dsn, ingester):
        for n in range(10):
            ingester.keep([parked(n, event_name=f"n_{n % 5}", code="data_rejected")], {})
        assert counted(dsn) == rows(dsn, ROWS)
        assert [name for _, _, name, _, _ in counted(dsn, ["n_4"])] == ["n_4"]
        run(dsn, "discard", event_name="n_4")
        assert counted(dsn) == rows(dsn, ROWS)


def test_the_keeper_and_jobs_do_not_wait_for_each_other_to_count(templates: Templates) -> None:
    """All in one group: two jobs' changes are under way while the ingester keeps and somebody sums up."""
    with (
        keeping(templates) as (dsn, ingester),
        closing(psycopg2.connect(dsn, options="-c lock_timeout=3s")) as one,
        closing(psycopg2.connect(dsn, options="-c lock_timeout=3s")) as other,
    ):
        ingester.keep([parked(n) for n in range(10)], {})
        session = JobSession.open(dsn)
        for conn in (one, other, session.conn, ingester.conn):
            with conn, conn.cursor() as cursor:
                cursor.execute("SET lock_timeout = '3s'")
        for conn, parity in ((one, 0), (other, 1)):
            with conn.cursor() as cursor:
                cursor.execute(
                    "UPDATE onramp_admin.states SET state = 'discarded' WHERE event %% 2 = %s", (parity,)
                )
        assert ingester.keep([parked(n) for n in range(10, 15)], {}) == 5
        session.sum_up()
        one.commit()
        session.sum_up()
        other.commit()
        session.close()
        assert counted(dsn) == rows(dsn, ROWS)
