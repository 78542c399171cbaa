"""What was decided about parked events is in rows of its own, also in a store of before."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Final

import psycopg2
import pytest

from services.admin.store import control_sql
from services.admin.store.work_sql import JobSession
from tests.fixtures.fix_postgres import HasDsn, Templates
from tests.fixtures.writer import eventually, execute, rows
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.made_up import keeping, parked, run

#: A store as the release before had it: of each state one event, and what had become of it.
STORE: Final = """
    INSERT INTO onramp_admin.groups (fingerprint, version, code, destination, events, first_seen, last_seen)
    VALUES ('x', 1, 'x', 'd', 6, now(), now());
    INSERT INTO onramp_admin.jobs (kind, filters, upto, actor, reason, counted)
    VALUES ('replay', '{}', 9, 'ann', 'why', 6);
    INSERT INTO onramp_admin.events (topic_id, topic, partition, "offset", destination, group_id, code,
                                     parked_at, reason, size, sha256, state, job, changed_at, attempt, failed,
                                     gone)
    SELECT gen_random_uuid(), 't', 0, n, 'd', 1, 'x', now(), '{"n": 1}', 3, 'x',
           (ARRAY['open', 'open', 'discarded', 'replaying', 'replayed', 'replayed_duplicate'])[n],
           CASE WHEN n > 1 THEN 1 END, CASE WHEN n > 1 THEN now() - n * interval '1 day' END, n - 1,
           CASE n WHEN 2 THEN '{"code": "y"}'::json END, n > 4
    FROM generate_series(1, 6) n;
    INSERT INTO onramp_admin.bytes (event, value) SELECT id, 'abc' FROM onramp_admin.events
"""
ALL: Final = """
    SELECT id, topic_id, topic, partition, "offset", destination, group_id, state, code, event_id, event_name,
           parked_at, reason::text, size, sha256, job, changed_at, attempt, failed::text, gone, value
    FROM onramp_admin.events LEFT JOIN onramp_admin.bytes ON event = id ORDER BY id
"""
COUNTS: Final = (
    "SELECT state, sum(events) FROM onramp_admin.moves GROUP BY 1 HAVING sum(events) <> 0 ORDER BY 1"
)


def test_what_a_release_before_has_decided_is_there_after_it(
    postgres: HasDsn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in files("services.admin.store").joinpath("sql").iterdir():
        if file.name < "0011":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with database_beside(postgres.dsn, "template0") as dsn:
        with monkeypatch.context() as of_before, closing(psycopg2.connect(dsn)) as conn, conn:
            of_before.setattr(control_sql, "_FILES", tmp_path)
            control_sql.prepare(conn)
        execute(dsn, STORE)
        before = rows(dsn, ALL)
        assert len(before) == 6
        JobSession.open(dsn).close()
        assert rows(dsn, ALL) == before
        # What was counted goes on from what it was.
        execute(dsn, "UPDATE onramp_admin.states SET state = 'open' WHERE state = 'replaying'")
        assert rows(dsn, COUNTS) == [("open", 1), ("replaying", -1)]
        execute(dsn, "DELETE FROM onramp_admin.parked WHERE id = 1")
        assert rows(dsn, COUNTS) == [("replaying", -1)]


def test_a_job_rewrites_no_row_of_what_was_parked(templates: Templates) -> None:
    places = "SELECT id, ctid::text, xmax::text FROM onramp_admin.parked ORDER BY id"
    with keeping(templates) as (dsn, keeper):
        keeper.keep([parked(n, event_name="a") for n in range(20)], {})
        before = rows(dsn, places)
        run(dsn, "discard", event_name="a")
        assert rows(dsn, "SELECT state, count(*) FROM onramp_admin.events GROUP BY 1") == [("discarded", 20)]
        run(dsn, "restore", event_name="a")
        assert rows(dsn, "SELECT state, count(*) FROM onramp_admin.events GROUP BY 1") == [("open", 20)]
        assert rows(dsn, places) == before


def test_a_job_that_waited_for_an_event_leaves_it_to_who_had_it(templates: Templates) -> None:
    waits = """
        SELECT EXISTS (SELECT FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock')
    """
    with keeping(templates) as (dsn, keeper), closing(psycopg2.connect(dsn)) as other:
        keeper.keep([parked(n, event_name="a") for n in range(3)], {})
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
    with keeping(templates) as (dsn, keeper):
        keeper.keep([parked(n, code=f"c_{n % 3}") for n in range(20)], {})
        assert rows(dsn, "SELECT state, count(*) FROM onramp_admin.states GROUP BY 1") == [("open", 20)]
        execute(dsn, 'DELETE FROM onramp_admin.parked WHERE "offset" % 2 = 0')
        keeper.keep([parked(n, code=f"c_{n % 3}") for n in range(15)], {})
        assert (rows(dsn, "SELECT count(*) FROM onramp_admin.states"), rows(dsn, alone)) == ([(18,)], [(0,)])
