"""Background rehearsals of ten events of each open group, answered by a simulated writer."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from services.admin.api import views
from services.admin.group_rehearsals import group_rehearsals_sql
from services.admin.group_rehearsals.group_rehearsals_sql import RehearsalSession
from services.admin.group_rehearsals.scheduler import RehearsalScheduler
from services.admin.store import jobs_sql, read_sql
from services.admin.store.control_sql import transaction
from shared import failpoints
from shared.registry.memory import MemoryRegistry
from tests.fixtures.writer import eventually, execute, rows
from tests.integration.admin.job_bench import EVERY, Desk

AWAY = {"onramp": "postgresql://x:hunter2@127.0.0.1:1/x"}
OLDER = "UPDATE onramp_admin.group_rehearsals SET {column} = {column} - interval '{by}'"

WITHOUT_TOPIC_ID = """
    UPDATE onramp_admin.parked SET topic_id = '00000000-0000-0000-0000-000000000000' WHERE "offset" = 5
"""


class CutError(Exception):
    """Ends a step where it is."""


def opened(desk: Desk) -> RehearsalSession:
    """A session of rehearsals, once Postgres has ended the previous session."""
    return eventually(lambda: RehearsalSession.open(desk.dsn, desk.session.databases))


def shown(desk: Desk) -> dict[str, dict[str, Any]]:
    """The figures of groups, by code."""
    with transaction(desk.dsn) as conn:
        found = [views.group(group) for group in read_sql.groups(conn, {}, None, 500)]
    return {group["cause"]["code"]: group["would_land_now"] for group in found}


def older(desk: Desk, by: str, column: str = "began_at") -> None:
    execute(desk.dsn, OLDER.format(column=column, by=by))


@pytest.fixture
def code(desk: Desk) -> str:
    """The cause that five of its events have; the sixth cannot be replayed: it says no topic's id."""
    execute(desk.dsn, WITHOUT_TOPIC_ID)
    ((code,),) = rows(desk.dsn, "SELECT code FROM onramp_admin.groups WHERE events = 5")
    return str(code)


def test_a_group_shows_how_many_would_land_of_when_and_why_the_others_would_not(
    desk: Desk, code: str
) -> None:
    session = opened(desk)
    assert session.begin("r1") == 2
    assert session.go_on()
    assert desk.asked() == [*EVERY]
    assert shown(desk)[code]["at"] is None
    desk.answer("landed", 0, 1, 2)
    desk.answer("parked", 3, reason="""'{"code":"no_permission"}'""")
    assert session.go_on()  # not all are answered
    desk.answer("duplicate", 4)
    assert session.go_on()
    assert not session.go_on()
    look = shown(desk)[code]
    assert (look["would_land"], look["of"], look["waits"]) == (3, 5, None)
    assert look["at"] is not None
    assert sorted((each["outcome"], each["reason"], each["events"]) for each in look["why"]) == [
        ("duplicate", "", 1),
        ("failed", "The writer's role may not write this table.", 1),
    ]
    others = [of for of_code, of in shown(desk).items() if of_code != code]
    assert [of["waits"] for of in others] == ["none of its open events can be replayed"]
    # Nothing is left, no event has changed, and nobody's list of jobs has it.
    assert (desk.asked(), desk.states()) == ([], [(n, "open", 0) for n in EVERY])
    with transaction(desk.dsn) as conn:
        assert jobs_sql.jobs(conn, {}) == []
    session.close()


def test_it_is_asked_again_after_an_hour_or_another_registry_and_not_before(desk: Desk) -> None:
    session = opened(desk)
    session.begin("r1")
    session.go_on()
    desk.answer("landed", *EVERY)
    session.go_on()
    assert session.begin("r1") == 0
    assert session.begin("r2") == 2
    session.go_on()
    desk.answer("landed", *EVERY)
    session.go_on()
    assert session.begin("r2") == 0
    older(desk, "1 hour", "next_at")
    assert session.begin("r2") == 2
    session.close()


def test_the_oldest_look_comes_first_ten_of_a_group_and_closed_groups_never(desk: Desk, code: str) -> None:
    execute(
        desk.dsn,
        """INSERT INTO onramp_admin.groups (fingerprint, version, code, state, events, first_seen, last_seen)
           SELECT decode(md5(n::text), 'hex'), 1, 'planted_' || n,
                  (ARRAY['open', 'open', 'ignored', 'resolved', 'acknowledged'])[n], 40 * (n <> 2)::int,
                  now(), now()
           FROM generate_series(1, 5) n;
           INSERT INTO onramp_admin.parked (topic_id, topic, partition, "offset", destination, group_id, code,
                                            parked_at, reason, size, sha256)
           SELECT gen_random_uuid(), 't', 0, n, 'onramp.a.b', g.id, g.code, now(), '{}', 0, ''
           FROM onramp_admin.groups g, generate_series(1, 40) n WHERE g.events = 40;
           UPDATE onramp_admin.states SET state = 'discarded' FROM onramp_admin.parked
           WHERE id = event AND "offset" > 20""",
    )
    session = opened(desk)
    first = """
        SELECT code FROM onramp_admin.group_rehearsals
        JOIN onramp_admin.groups ON id = group_id WHERE round IS NOT NULL
    """
    found = []
    for _ in range(4):
        assert session.begin("r", 1) == 1
        found += [of for (of,) in rows(desk.dsn, first)]
        execute(desk.dsn, "UPDATE onramp_admin.group_rehearsals SET round = NULL")
    assert session.begin("r", 1) == 0
    assert (code in found, found[-2:]) == (True, ["planted_1", "planted_5"])
    ((asked,),) = rows(
        desk.dsn,
        """SELECT array_agg(e."offset" ORDER BY 1) FROM onramp_admin.group_rehearsals l
           JOIN onramp_admin.groups g ON g.id = l.group_id
           JOIN onramp_admin.events e ON e.id = ANY (l.event_ids) WHERE g.code = 'planted_5'""",
    )
    assert asked == [*range(11, 21)]
    execute(
        desk.dsn, "UPDATE onramp_admin.group_rehearsals SET began_at = now() - group_id * interval '1 minute'"
    )
    assert session.begin("another", 1) == 1
    assert rows(desk.dsn, first) == [("planted_5",)]
    session.close()


def test_a_kill_in_a_round_is_gone_on_with_by_the_next_service(
    desk: Desk, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(_: str) -> None:
        raise CutError

    session = opened(desk)
    assert RehearsalSession.open(desk.dsn, desk.session.databases) is None  # one service looks
    with monkeypatch.context() as killed:
        killed.setattr(failpoints, "reach", cut)
        with pytest.raises(CutError):
            session.begin("r")
    session.close()
    again = opened(desk)
    again.go_on()
    assert desk.asked() == [*EVERY]
    again.close()
    last = opened(desk)
    desk.answer("landed", *EVERY)
    last.go_on()
    assert (shown(desk)[code]["would_land"], desk.asked()) == (5, [])
    last.close()


def test_rehearsal_names_an_unreachable_database_and_retries_sooner_and_names_a_silent_writer(
    desk: Desk, code: str
) -> None:
    session = opened(desk)
    session.begin("r")
    session.go_on()
    desk.answer("landed", *EVERY)
    session.go_on()
    session.begin("r2")
    assert replace(session, databases=AWAY).go_on()
    assert not session.go_on()
    look = shown(desk)[code]
    assert look["waits"] == "database onramp: SQLSTATE none (it cannot be reached)"
    assert (look["would_land"], look["of"]) == (5, 5)  # of when it was known
    assert session.begin("r2") == 0
    older(desk, "5 minutes", "next_at")
    assert session.begin("r2") == 1
    session.go_on()
    older(desk, "3 minutes")
    session.go_on()
    assert (shown(desk)[code]["waits"], desk.asked()) == ("the writer has not answered", [])
    session.close()


def test_the_service_looks_by_itself_and_no_more_than_the_bound_of_an_hour(
    desk: Desk, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = MemoryRegistry({})

    async def look(per_hour: int) -> None:
        rehearsals = RehearsalScheduler(
            desk.dsn, desk.session.databases, registry, per_hour=per_hour, settled_seconds=0
        )
        running = asyncio.create_task(rehearsals.run())
        async with asyncio.timeout(60):
            while not (shown(desk)[code] or {}).get("at"):
                await asyncio.to_thread(desk.answer, "landed", *EVERY)
                await asyncio.sleep(0.05)
        registry.put({"event_types": {"sale": {}}})
        rehearsals.stop()
        await running

    asyncio.run(RehearsalScheduler(desk.dsn, desk.session.databases, registry, per_hour=0).run())
    assert rows(desk.dsn, "SELECT count(*) FROM onramp_admin.group_rehearsals") == [(0,)]
    monkeypatch.setattr(group_rehearsals_sql, "EVENTS", 3)
    asyncio.run(look(7200))
    assert (shown(desk)[code]["would_land"], shown(desk)[code]["of"]) == (3, 3)
