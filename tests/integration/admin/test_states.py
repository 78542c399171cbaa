"""Decisions about parked events are stored in rows of their own."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg2

from tests.fixtures.fix_postgres import Templates
from tests.fixtures.writer import eventually, execute, rows
from tests.integration.admin.parked_samples import keeping, parked, run


def test_a_job_rewrites_no_row_of_what_was_parked(templates: Templates) -> None:
    places = "SELECT id, ctid::text, xmax::text FROM onramp_admin.parked ORDER BY id"
    with keeping(templates) as (dsn, ingester):
        ingester.keep([parked(n, event_name="a") for n in range(20)], {})
        before = rows(dsn, places)
        run(dsn, "discard", event_name="a")
        assert rows(dsn, "SELECT state, count(*) FROM onramp_admin.events GROUP BY 1") == [("discarded", 20)]
        run(dsn, "restore", event_name="a")
        assert rows(dsn, "SELECT state, count(*) FROM onramp_admin.events GROUP BY 1") == [("open", 20)]
        assert rows(dsn, places) == before


def test_job_skips_an_event_that_another_transaction_changed_while_the_job_waited(
    templates: Templates,
) -> None:
    waits = """
        SELECT EXISTS (SELECT FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock')
    """
    with keeping(templates) as (dsn, ingester), closing(psycopg2.connect(dsn)) as other:
        ingester.keep([parked(n, event_name="a") for n in range(3)], {})
        with other.cursor() as cursor:
            cursor.execute("UPDATE onramp_admin.states SET state = 'replaying' WHERE event = 2")
        with ThreadPoolExecutor(1) as pool:
            discarding = pool.submit(run, dsn, "discard", event_name="a")
            eventually(lambda: rows(dsn, waits) == [(True,)])
            other.commit()
            discarding.result()
        found = [state for (state,) in rows(dsn, "SELECT state FROM onramp_admin.events ORDER BY id")]
        assert found == ["discarded", "replaying", "discarded"]
        assert rows(dsn, "SELECT changed FROM onramp_admin.jobs") == [(2,)]


def test_an_event_has_a_state_from_the_first_and_none_when_it_is_removed(templates: Templates) -> None:
    alone = """
        SELECT count(*) FROM onramp_admin.parked p FULL JOIN onramp_admin.states s ON s.event = p.id
        WHERE s.event IS NULL OR p.id IS NULL OR s.group_id <> p.group_id
    """
    with keeping(templates) as (dsn, ingester):
        ingester.keep([parked(n, code=f"c_{n % 3}") for n in range(20)], {})
        assert rows(dsn, "SELECT state, count(*) FROM onramp_admin.states GROUP BY 1") == [("open", 20)]
        execute(dsn, 'DELETE FROM onramp_admin.parked WHERE "offset" % 2 = 0')
        ingester.keep([parked(n, code=f"c_{n % 3}") for n in range(15)], {})
        assert (rows(dsn, "SELECT count(*) FROM onramp_admin.states"), rows(dsn, alone)) == ([(18,)], [(0,)])
