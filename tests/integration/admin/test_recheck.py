"""A recheck reopens exactly the replays that a restored dump has lost."""

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from services.admin.store import recheck_sql
from services.admin.store.control_sql import transaction
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.writer import execute, rows
from tests.integration.admin.conftest import database_beside, disconnect
from tests.integration.admin.job_bench import EVERY, Desk

STAGED = """
    INSERT INTO onramp.replays (topic_id, topic, partition, "offset", destination, attempt, job, timestamp)
    SELECT topic_id, topic, partition, "offset", destination, {attempt}, gen_random_uuid(), now()
    FROM onramp.replayed WHERE "offset" = {offset} LIMIT 1
"""


@pytest.fixture
def replayed(desk: Desk) -> Desk:
    """0 to 2 have landed, 3 was there already, 4 failed again and is open."""
    desk.start()
    desk.work()
    desk.play("landed", 0, 1, 2)
    desk.play("duplicate", 3)
    desk.play("parked", 4, reason="""'{"code":"no_permission"}'""")
    desk.work()
    assert [state for _, state, _ in desk.states()] == ["replayed"] * 3 + ["replayed_duplicate", "open"]
    return desk


def look(desk: Desk, most: int = 1_000) -> recheck_sql.Rechecked:
    with transaction(desk.dsn) as conn:
        return recheck_sql.recheck_page(conn, desk.session.databases, 0, most)


def recheck(desk: Desk) -> list[int]:
    """Recheck all; the offsets that are open again."""
    with transaction(desk.dsn) as conn:
        lost = recheck_sql.recheck_page(conn, desk.session.databases, 0, 1_000).lost
        opened = recheck_sql.reopen(conn, lost)
    return sorted(each.attempt.offset for each in lost if each.attempt.id in opened)


def test_event_recorded_in_its_database_stays_replayed(replayed: Desk) -> None:
    before = replayed.states()
    assert recheck(replayed) == []
    assert replayed.states() == before


def test_lost_replay_reopens_with_its_reason_and_is_staged_under_the_next_attempt(replayed: Desk) -> None:
    execute(replayed.dsn, "UPDATE onramp_admin.groups SET state = 'resolved'")
    replayed.stage.execute('DELETE FROM onramp.replayed WHERE "offset" IN (1, 3)')
    assert recheck(replayed) == [1, 3]
    assert replayed.states()[:4] == [(0, "replayed", 1), (1, "open", 1), (2, "replayed", 1), (3, "open", 1)]
    said = rows(replayed.dsn, "SELECT failed ->> 'code' FROM onramp_admin.events WHERE \"offset\" = 1")
    assert said == [("replay_lost",)]
    assert rows(
        replayed.dsn, "SELECT DISTINCT state FROM onramp_admin.groups WHERE code = 'data_rejected'"
    ) == [("open",)]
    assert recheck(replayed) == []
    replayed.start()
    replayed.work()
    assert replayed.staged() == [(1, 2), (3, 2), (4, 2)]


def test_event_that_landed_under_another_attempt_is_not_lost(replayed: Desk) -> None:
    execute(replayed.dsn, "UPDATE onramp_admin.states SET attempt = 7")
    assert recheck(replayed) == []


def test_an_attempt_that_failed_there_is_not_one_that_landed(replayed: Desk) -> None:
    replayed.stage.execute("UPDATE onramp.replayed SET outcome = 'parked' WHERE \"offset\" = 2")
    assert recheck(replayed) == [2]


@pytest.mark.parametrize("attempt", [1, 2])
def test_event_that_a_restored_dump_has_staged_is_counted_as_staged_and_not_lost(
    replayed: Desk, attempt: int
) -> None:
    replayed.stage.execute(STAGED.format(offset=1, attempt=attempt))
    replayed.stage.execute('DELETE FROM onramp.replayed WHERE "offset" IN (0, 1)')
    found = look(replayed)
    assert ([each.attempt.offset for each in found.lost], found.staged) == ([0], 1)


def test_recheck_pages_follow_each_other_and_the_last_page_has_no_next_cursor(replayed: Desk) -> None:
    replayed.stage.execute("DELETE FROM onramp.replayed")
    seen, after = [], 0
    while True:
        with transaction(replayed.dsn) as conn:
            found = recheck_sql.recheck_page(conn, replayed.session.databases, after, 3)
        seen += [each.attempt.offset for each in found.lost]
        if found.next is None:
            break
        after = found.next
    assert seen == [0, 1, 2, 3]


def test_a_database_that_is_out_or_not_configured_is_named_and_its_events_stay(replayed: Desk) -> None:
    away = {"onramp": "postgresql://x@127.0.0.1:1/x"}
    with transaction(replayed.dsn) as conn:
        out = recheck_sql.recheck_page(conn, away, 0, 1_000)
        unknown = recheck_sql.recheck_page(conn, {}, 0, 1_000)
    assert (out.lost, list(out.unreached)) == ([], ["onramp"])
    assert (unknown.lost, list(unknown.unreached)) == ([], [""])
    assert "4 replayed events" in unknown.unreached[""]


def test_lost_event_without_stored_bytes_is_marked_gone(replayed: Desk) -> None:
    first = 'SELECT id FROM onramp_admin.parked WHERE "offset" = 0'
    execute(replayed.dsn, f"UPDATE onramp_admin.states SET gone = true WHERE event = ({first})")  # noqa: S608
    replayed.stage.execute("DELETE FROM onramp.replayed")
    gone = {each.attempt.offset: each.gone for each in look(replayed).lost}
    assert gone == {0: True, 1: False, 2: False, 3: False}


@pytest.fixture
def copied(desk: Desk, postgres: HasDsn) -> Iterator[tuple[Desk, str]]:
    """A bench, and its events' database as it was before any replay."""
    disconnect()
    with database_beside(postgres.dsn, urlsplit(desk.stage.dsn).path.removeprefix("/")) as before:
        yield desk, before


def test_a_database_of_before_the_replay_gets_each_event_again(copied: tuple[Desk, str]) -> None:
    desk, before = copied
    desk.start()
    desk.work()
    desk.play("landed", *EVERY)
    desk.work()
    restored = Desk(
        replace(desk.stage, dsn=before), desk.dsn, replace(desk.session, databases={"onramp": before})
    )
    assert recheck(restored) == list(EVERY)
    restored.start()
    restored.work()
    assert restored.staged() == [(n, 2) for n in EVERY]
    restored.play("landed", *EVERY)
    restored.work()
    assert restored.states() == [(n, "replayed", 2) for n in EVERY]
    assert recheck(restored) == []
