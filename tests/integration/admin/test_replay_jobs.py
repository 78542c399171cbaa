"""Replay jobs: each marked event is staged once per attempt, and its outcome decides its state.

The writer is played by the statements that it runs in the row's own transaction.
"""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from services.admin.attempts import Attempt, AttemptState, Destination
from services.admin.jobs import replay
from services.admin.jobs.job_session import JobSession
from services.admin.segments.folder import Segments
from services.admin.store import bytes_sql, results_sql, segments_sql, sets_sql, staging_sql
from services.admin.store.control_sql import transaction
from services.admin.store.jobs_sql import Plan
from services.admin.store.segments_sql import PackerSession
from services.admin.store.staging_sql import Load, Staging
from services.ops.fixes import exact
from services.ops.fixes.payloads import fixed
from services.ops.fixes.steps import Fix
from shared import failpoints
from tests.fixtures.writer import envelope, execute, rows
from tests.integration.admin.job_bench import EVERY, Desk

#: An event whose record did not say its topic's id, and one without a value.
WITHOUT_TOPIC_ID = """
    UPDATE onramp_admin.parked SET topic_id = '00000000-0000-0000-0000-000000000000' WHERE "offset" = 0
"""
TOMBSTONE = """
    DELETE FROM onramp_admin.bytes USING onramp_admin.events e WHERE event = e.id AND e."offset" = 4;
    UPDATE onramp_admin.parked SET sha256 = NULL WHERE "offset" = 4
"""
LOST = """
    SELECT s.name FROM onramp_admin.segments s JOIN onramp_admin.events e ON e.id = s.first_event
    WHERE e."offset" = 2
"""
FAILED = """SELECT state, failed->>'code' FROM onramp_admin.events WHERE "offset" = 2"""


class CutError(Exception):
    """Ends a step where it is."""


def test_an_event_is_staged_as_it_was_parked_and_replayed_when_it_has_landed(desk: Desk) -> None:
    job = desk.start()
    assert desk.job(job).counted == 5
    desk.work()
    [first, *_] = desk.stage.rows(
        "SELECT topic_id::text, topic, partition, destination, attempt, value, received_at::text,"
        ' timestamp::text, job::text FROM onramp.replays ORDER BY "offset"'
    )
    partition = desk.stage.partition
    assert (*first[:5], bytes(first[5]), *first[6:]) == (
        desk.stage.topic_id, partition.topic, 0, f"onramp.{desk.stage.table}", 1,
        envelope("e-0", desk.stage.name, b'{"a":"\\u0000"}'),
        "2026-11-21 08:00:01+00", "2026-11-21 08:00:02+00", desk.job(job).uuid,
    )  # fmt: skip
    assert desk.states() == [(n, "replaying", 1) for n in EVERY]
    desk.play("landed", 0, 1, 2)
    desk.work()
    assert (desk.job(job).state, desk.job(job).changed) == ("running", 3)
    desk.play("duplicate", 3, 4)
    desk.work()
    assert desk.states() == [(n, "replayed" if n < 3 else "replayed_duplicate", 1) for n in EVERY]
    assert (desk.job(job).state, desk.job(job).changed, desk.job(job).failed) == ("done", 5, 0)


def test_event_that_fails_again_reopens_with_its_reason_and_gets_another_attempt(desk: Desk) -> None:
    first = desk.start()
    desk.work()
    desk.play("parked", 0, 1, reason="""'{"code":"no_permission"}'""")
    desk.play("landed", 2, 3, 4)
    desk.work()
    assert (desk.job(first).changed, desk.job(first).failed) == (3, 2)
    assert desk.results(first) == [
        ("landed", "", 3),
        ("failed", "The writer's role may not write this table.", 2),
    ]
    assert desk.states()[:3] == [(0, "open", 1), (1, "open", 1), (2, "replayed", 1)]
    said = rows(desk.dsn, "SELECT failed ->> 'code' FROM onramp_admin.events WHERE failed IS NOT NULL")
    assert said == [("no_permission",)] * 2
    second = desk.start()
    assert desk.job(second).counted == 2
    desk.work()
    assert desk.staged() == [(0, 2), (1, 2)]
    desk.play("landed", 0, 1)
    desk.work()
    assert desk.states() == [(0, "replayed", 2), (1, "replayed", 2), *[(n, "replayed", 1) for n in (2, 3, 4)]]


def test_a_fix_edits_what_is_staged_and_what_it_does_not_fit_fails_for_that_reason(desk: Desk) -> None:
    value = envelope("e-0", desk.stage.name, b'{"a":"\\u0000"}')
    fits = Fix([{"drop": "/a"}, {"default": "/n", "value": exact.Number("1.10")}])
    steps = [{"patch": [{"op": "test", "path": "/b", "value": 1}]}]
    refused = desk.start(plan=Plan(fix=Fix(steps).text))
    desk.work()
    assert (desk.staged(), desk.job(refused).state, desk.job(refused).failed) == ([], "done", 5)
    assert desk.results(refused) == [("failed", "the fix does not apply: /b is not there", 5)]
    assert desk.states() == [(n, "open", 1) for n in EVERY]
    desk.start(plan=Plan(fix=fits.text))
    desk.work()
    staged = desk.stage.rows('SELECT value, sha256 FROM onramp.replays ORDER BY "offset" LIMIT 1')
    [(found, digest)] = [(bytes(value), bytes(digest)) for value, digest in staged]
    assert (found, digest) == fixed(value, fits)
    assert (b'{"n":1.10}' in found, digest) == (True, sha256(found).digest())


def test_another_table_is_staged_and_also_when_an_attempt_is_staged_again(desk: Desk) -> None:
    def to() -> list[tuple[str, int]]:
        return desk.stage.rows('SELECT "to", count(*)::int FROM onramp.replays GROUP BY 1')

    job = desk.start(plan=Plan(to="shop.orders"))
    desk.work()
    assert to() == [("shop.orders", 5)]
    desk.stage.execute('DELETE FROM onramp.replays WHERE "offset" < 3')  # the writer drops what is old
    desk.work()
    assert to() == [("shop.orders", 5)]
    desk.play("parked", *EVERY, reason="""'{"code":"not_routed"}'""")
    desk.work()
    said = "The replayed event's current routes do not lead to the table that it was parked for."
    assert desk.results(job) == [("failed", said, 5)]


def test_beyond_the_most_causes_of_a_job_they_are_counted_together(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_sql, "MAX", 2)
    job = desk.start()
    desk.work()
    for offset in EVERY:
        desk.play("parked", offset, reason=f"""'{{"detail":"reason {offset}"}}'""")
        desk.work()
    assert desk.results(job) == [
        ("failed", "other causes", 3), ("failed", "reason 0", 1), ("failed", "reason 1", 1)
    ]  # fmt: skip


def test_a_step_that_is_cut_after_it_staged_stages_nothing_twice(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start()
    desk.work(1)
    assert desk.staged() == []  # marked alone

    def cut(_: str) -> None:
        raise CutError

    with monkeypatch.context() as cutting:
        cutting.setattr(failpoints, "reach", cut)
        with pytest.raises(CutError):
            desk.work(1)
        assert desk.staged() == [(n, 1) for n in EVERY]
        desk.play("landed", *EVERY)
        with pytest.raises(CutError):
            desk.work(1)
    assert desk.states() == [(n, "replaying", 1) for n in EVERY]
    desk.work()
    assert desk.staged() == []
    assert desk.states() == [(n, "replayed", 1) for n in EVERY]


def test_dropped_replay_is_staged_again_under_the_same_attempt(desk: Desk) -> None:
    desk.start()
    desk.work()
    desk.stage.execute('DELETE FROM onramp.replays WHERE "offset" < 2')
    desk.work(1)
    assert desk.staged() == [(n, 1) for n in EVERY]


def test_beside_an_earlier_attempt_that_a_dump_brought_back_the_others_are_staged(desk: Desk) -> None:
    desk.start()
    desk.work()
    desk.stage.execute('UPDATE onramp.replays SET attempt = 0 WHERE "offset" = 1')
    desk.stage.execute('DELETE FROM onramp.replays WHERE "offset" <> 1')
    desk.work(1)
    assert desk.staged() == [(n, 0 if n == 1 else 1) for n in EVERY]
    desk.stage.execute('DELETE FROM onramp.replays WHERE "offset" = 1')  # the writer drops what is old
    desk.work(1)
    assert desk.staged() == [(n, 1) for n in EVERY]


def test_a_cancel_reopens_what_it_took_back_and_nothing_that_landed(desk: Desk) -> None:
    job = desk.start()
    desk.work()
    desk.play("landed", 0)
    desk.stage.execute('DELETE FROM onramp.replays WHERE "offset" = 1')  # dropped: nobody has it
    desk.cancel(job)
    desk.work()
    assert desk.staged() == []
    assert desk.states() == [(0, "replayed", 1), *[(n, "open", 1) for n in (1, 2, 3, 4)]]
    assert (desk.job(job).state, desk.job(job).changed) == ("cancelled", 1)


def test_an_event_whose_bytes_are_lost_fails_by_name_and_stops_no_other(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_sql, "SEGMENT_BYTES", 1)
    segments = Segments(str(tmp_path))
    packer = PackerSession.open(desk.dsn, segments)
    assert packer is not None
    while packer.pack():
        pass
    packer.close()
    [(name,)] = rows(desk.dsn, LOST)
    (tmp_path / name).unlink()
    desk.session = JobSession(desk.session.conn, desk.session.databases, segments)
    desk.start()
    desk.work()
    assert desk.staged() == [(n, 1) for n in EVERY if n != 2]
    assert desk.stage.rows("SELECT count(*) FROM onramp.replays WHERE value IS NULL") == [(0,)]
    [(state, code)] = rows(desk.dsn, FAILED)
    assert (state, code) == ("open", "segment_missing")


def test_while_its_database_is_away_a_job_waits_and_says_why(desk: Desk) -> None:
    job = desk.start()
    away = JobSession(desk.session.conn, {"onramp": "postgresql://x:hunter2@127.0.0.1:1/x"})
    there, desk.session = desk.session, away
    desk.work()
    assert desk.job(job).waits == "database onramp: SQLSTATE none (it cannot be reached)"
    assert desk.states() == [(n, "replaying", 1) for n in EVERY]
    desk.cancel(job)
    desk.work()
    assert desk.job(job).state == "cancelling"
    assert desk.states() == [(n, "replaying", 1) for n in EVERY]
    desk.session = there
    desk.work()
    assert (desk.job(job).state, desk.job(job).waits) == ("cancelled", None)
    assert desk.states() == [(n, "open", 1) for n in EVERY]


def test_no_more_is_staged_ahead_than_may_be(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MAX_STAGED", 2)
    job = desk.start()
    desk.work(5)
    assert [o for o, _ in desk.staged()] == [0, 1]
    desk.play("landed", 0)
    desk.work(5)
    assert [o for o, _ in desk.staged()] == [1, 2]
    for offset in EVERY:
        desk.play("landed", offset)
        desk.work(5)
    assert (desk.job(job).state, desk.job(job).changed) == ("done", 5)


def test_a_step_asks_about_what_the_one_before_it_has_marked_and_the_next_about_all(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "MAX_STAGED", 3)
    asked: list[list[int]] = []
    follow = staging_sql.follow

    def noted(where: Destination, by: Staging, attempts: Sequence[Attempt], load: Load) -> list[AttemptState]:
        asked.append([a.offset for a in attempts])
        return follow(where, by, attempts, load)

    monkeypatch.setattr(staging_sql, "follow", noted)
    desk.start()
    desk.work(2)
    desk.play("landed", 0, 1)
    desk.work(3)
    assert asked == [[0, 1, 2], [0, 1, 2], [3, 4], [2, 3, 4]]


def test_event_in_two_concurrent_replays_is_replayed_by_a_single_job(desk: Desk) -> None:
    jobs = [desk.start(), desk.start()]
    desk.work(6)
    desk.play("landed", *EVERY)
    desk.work(6)
    assert [desk.job(job).state for job in jobs] == ["done", "done"]
    assert sum(desk.job(job).changed for job in jobs) == 5
    assert desk.states() == [(n, "replayed", 1) for n in EVERY]


def test_event_that_cannot_land_in_a_configured_database_is_not_counted_for_replay(desk: Desk) -> None:
    def counted(databases: dict[str, str]) -> int:
        with transaction(desk.dsn) as conn:
            return sets_sql.count(conn, "replay", sets_sql.frozen(conn, {}), databases)

    assert rows(desk.dsn, "SELECT count(*) FROM onramp_admin.events") == [(6,)]
    assert counted({"onramp": desk.stage.dsn}) == 6
    assert counted({"other": desk.stage.dsn}) == 1  # it was refused: any writer's first database sorts it
    assert counted({}) == 0
    execute(desk.dsn, WITHOUT_TOPIC_ID)
    execute(desk.dsn, TOMBSTONE)
    assert counted({"onramp": desk.stage.dsn}) == 4


def test_a_replay_stages_a_part_and_gives_others_their_turn(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_sql, "_MAX_BYTES", 1)
    desk.start()
    desk.session.work()  # marked
    desk.session.work()
    assert desk.staged() == [(0, 1)]
    rehearsal = desk.start("rehearse", event_name="x")  # of nothing: done when it has its turn
    desk.session.work()
    desk.session.work()
    assert (desk.job(rehearsal).state, len(desk.staged())) == ("done", 2)
    for _ in range(3):  # at once: it waits for nobody
        desk.session.work()
    assert desk.staged() == [(n, 1) for n in EVERY]


def test_fixed_events_over_the_byte_limit_are_staged_over_several_steps(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytes_sql, "MAX_EDITED", 1)
    plan = Plan(fix='[{"default":"/b","value":1}]')
    rehearsal = desk.start("rehearse", plan)
    desk.work(1)
    assert rows(desk.stage.dsn, "SELECT count(*) FROM onramp.rehearsals") == [(5,)]
    desk.cancel(rehearsal)
    desk.start(plan=plan)
    desk.work(3)
    staged = len(desk.staged())
    assert 0 < staged < len(EVERY)
    desk.work(6)
    assert desk.staged() == [(n, 1) for n in EVERY]


def _restored(desk: Desk, attempt: int) -> None:
    """Restore the events to a dump from before the last replays."""
    statement = "UPDATE onramp_admin.states SET state = 'open', failed = NULL, job = NULL, attempt = {}"
    execute(desk.dsn, statement.format(attempt))


def test_after_a_restore_an_attempt_of_before_is_no_outcome_of_a_job(desk: Desk) -> None:
    for offsets, outcome in (((0, 1), "landed"), ((2,), "duplicate")):
        desk.start()
        desk.work()
        desk.play("parked", *EVERY, reason="""'{"code":"no_permission"}'""")
        desk.work()
        desk.start()
        desk.work()
        desk.play(outcome, *offsets)
        desk.play("parked", *EVERY, reason="""'{"code":"not_routed"}'""")
        desk.work()
    _restored(desk, 0)
    job = desk.start(plan=Plan(to="shop.orders"))
    desk.work(4)
    assert desk.states() == [
        (0, "replayed", 2), (1, "replayed", 2), (2, "replayed_duplicate", 4), (3, "replaying", 5),
        (4, "replaying", 5),
    ]  # fmt: skip
    assert desk.staged() == [(3, 5), (4, 5)]
    assert desk.results(job) == [("landed_earlier", "", 3)]
    desk.play("landed", 3)
    desk.play("parked", 4, reason="""'{"code":"no_permission"}'""")
    desk.work()
    assert (desk.job(job).state, desk.job(job).changed, desk.job(job).failed) == ("done", 4, 1)
    assert desk.states()[3:] == [(3, "replayed", 5), (4, "open", 5)]


def test_after_a_restore_what_an_old_job_has_staged_is_not_staged_by_the_new_one(desk: Desk) -> None:
    desk.start(plan=Plan(to="shop.old"))
    desk.work()
    _restored(desk, 0)
    job = desk.start()
    desk.work()
    assert desk.stage.rows('SELECT DISTINCT "to", attempt FROM onramp.replays') == [("shop.old", 1)]
    assert desk.states() == [(n, "replaying", 2) for n in EVERY]
    desk.play("landed", 0)
    desk.play("parked", 1, 2, 3, 4, reason="""'{"code":"not_routed"}'""")
    desk.work()
    assert desk.states()[0] == (0, "replayed", 1)
    assert desk.stage.rows('SELECT DISTINCT "to", attempt FROM onramp.replays') == [(None, 2)]
    assert desk.results(job) == [("landed_earlier", "", 1)]
    desk.cancel(job)
    desk.work()
    assert (desk.job(job).state, desk.staged()) == ("cancelled", [])


def test_events_of_a_database_that_is_gone_are_open_again_after_a_cancel_or_its_retirement(
    desk: Desk,
) -> None:
    job = desk.start()
    desk.work()
    gone, retired = {"other": desk.session.databases["onramp"]}, dict[str, bool]()
    session = JobSession(desk.session.conn, gone, dsn=desk.dsn, retired=lambda: retired)
    own, desk.session = desk.session, session
    desk.work()
    assert desk.job(job).waits == "events are marked for a database that is not configured"
    assert desk.states() == [(n, "replaying", 1) for n in EVERY]
    # The events' database has a name that begins with the retired one's.
    retired |= {"onramp": True, "onramp.events": False}
    desk.work()
    assert desk.states() == [(n, "replaying", 1) for n in EVERY]
    del retired["onramp.events"]
    desk.work()
    assert (desk.job(job).state, desk.job(job).failed) == ("done", 5)
    assert desk.states() == [(n, "open", 1) for n in EVERY]
    said = rows(desk.dsn, "SELECT failed ->> 'code' FROM onramp_admin.events WHERE failed IS NOT NULL")
    assert said == [("database_retired",)] * 5

    # It is configured again: what it has staged of the first job lands, and is no outcome of another.
    desk.session = own
    second = desk.start()
    desk.work()
    desk.session = JobSession(desk.session.conn, gone, dsn=desk.dsn)
    desk.cancel(second)
    desk.work()
    assert (desk.job(second).state, desk.job(second).waits) == ("cancelled", None)
    assert desk.states() == [(n, "open", 2) for n in EVERY]
    desk.session = own
    desk.play("landed", *EVERY)
    third = desk.start()
    desk.work()
    assert desk.results(third) == [("landed_earlier", "", 5)]
    assert desk.states() == [(n, "replayed", 1) for n in EVERY]
