"""Rehearsal jobs leave events unchanged; a replay of a rehearsal uses exactly the rehearsed set."""

import orjson
import pytest

from services.admin.jobs import rehearse
from services.admin.jobs.job_session import JobSession
from services.admin.store.jobs_sql import Plan
from services.ops.fixes.payloads import fixed
from services.ops.fixes.steps import Fix
from shared.errors import SET_CHANGED, UserError
from tests.fixtures.writer import envelope
from tests.integration.admin.job_bench import EVERY, Desk

OPEN = [(n, "open", 0) for n in EVERY]


def test_events_are_asked_about_and_their_answers_are_counted_by_cause(desk: Desk) -> None:
    job = desk.start("rehearse", Plan(with_triggers=True))
    desk.work(1)
    assert desk.asked() == [*EVERY]
    assert desk.stage.rows("SELECT DISTINCT job::text, with_triggers FROM onramp.rehearsals") == [
        (desk.job(job).uuid, True)
    ]
    desk.answer("landed", 0, 1)
    desk.answer("parked", 2, reason="""'{"code":"no_permission"}'""")
    desk.work(1)
    assert (desk.job(job).state, desk.job(job).waits) == ("running", "no answer yet from the writer")
    desk.answer("triggers", 3, reason="""'{"detail":"table t has triggers of its owner"}'""")
    desk.answer("duplicate", 4)
    desk.work(1)
    assert (desk.job(job).state, desk.job(job).changed, desk.job(job).failed) == ("done", 5, 1)
    assert desk.results(job) == [
        ("landed", "", 2),
        ("duplicate", "", 1),
        ("failed", "The writer's role may not write this table.", 1),
        ("triggers", "table t has triggers of its owner", 1),
    ]
    assert (desk.asked(), desk.states()) == ([], OPEN)
    shown = orjson.loads(desk.job(job).samples or "")
    assert [sample["outcome"] for sample in shown] == ["landed", "landed", "failed", "triggers", "duplicate"]
    assert shown[0]["edited"]["metadata"]["id"] == "a-9"
    assert [sample["row"] for sample in shown] == [None] * 5


def test_samples_have_the_rows_that_the_writer_returned_and_their_values_are_masked(desk: Desk) -> None:
    job = desk.start("rehearse")
    desk.work(1)
    assert desk.stage.rows("SELECT count(*) FROM onramp.rehearsals WHERE shows_row") == [(5,)]
    desk.answer("landed", *EVERY)
    row = '{"amount": 12345678901234567890.12, "at": "2026-01-31", "note": null}'
    desk.stage.execute(f"""UPDATE onramp.rehearsals SET row_text = '{row}' WHERE "offset" = 0""")  # noqa: S608
    desk.work(1)
    shown = [sample["row"] for sample in orjson.loads(desk.job(job).samples or "")]
    assert shown == [{"amount": f"{'9' * 20}.99", "at": "9999-99-99", "note": None}, None, None, None, None]


def test_a_rehearsal_asks_about_what_a_fix_has_edited_and_its_replay_has_the_same_fix(desk: Desk) -> None:
    fix = Fix([{"rename": "/a", "to": "/b"}])
    job = desk.start("rehearse", Plan(fix=fix.text))
    desk.work(1)
    asked = {bytes(value) for (value,) in desk.stage.rows("SELECT value FROM onramp.rehearsals")}
    assert fixed(envelope("e-0", desk.stage.name, b'{"a":"\\u0000"}'), fix).value in asked
    desk.answer("landed", *EVERY)
    desk.work(1)
    assert "b" in orjson.loads(desk.job(job).samples or "")[0]["edited"]["payload"]
    replay = desk.start_rehearsed(job)
    desk.work(2)
    assert {bytes(value) for (value,) in desk.stage.rows("SELECT value FROM onramp.replays")} == asked
    assert desk.job(replay).fix == fix.text


def test_a_rehearsal_asks_about_another_table_and_its_replay_has_the_same(desk: Desk) -> None:
    job = desk.start("rehearse", Plan(to="shop.orders"))
    desk.work(1)
    assert desk.stage.rows('SELECT DISTINCT "to" FROM onramp.rehearsals') == [("shop.orders",)]
    desk.answer("landed", *EVERY)
    desk.work(1)
    desk.start_rehearsed(job)
    desk.work(2)
    assert desk.stage.rows('SELECT DISTINCT "to" FROM onramp.replays') == [("shop.orders",)]


def test_a_rehearsal_goes_page_by_page_and_asks_again_what_was_dropped(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearse, "MAX_EVENTS", 2)
    job = desk.start("rehearse")
    desk.work(2)
    desk.stage.execute('DELETE FROM onramp.rehearsals WHERE "offset" = 1')
    desk.work(1)
    assert desk.asked() == [0, 1]
    for _ in range(3):
        desk.answer("landed", *EVERY)
        desk.work(2)
    assert (desk.job(job).state, desk.job(job).changed, desk.results(job)) == ("done", 5, [("landed", "", 5)])


def test_a_rehearsal_that_is_cancelled_leaves_nothing(desk: Desk) -> None:
    job = desk.start("rehearse")
    desk.work(1)
    desk.cancel(job)
    desk.work(1)
    assert (desk.job(job).state, desk.asked(), desk.states()) == ("cancelled", [], OPEN)


def test_a_rehearsal_waits_for_a_database_that_is_away(desk: Desk) -> None:
    job = desk.start("rehearse")
    there = desk.session
    desk.session = JobSession(there.conn, {"onramp": "postgresql://x:hunter2@127.0.0.1:1/x"})
    desk.work(1)
    assert desk.job(job).waits == "database onramp: SQLSTATE none (it cannot be reached)"
    desk.session = there
    desk.work(1)
    desk.answer("landed", *EVERY)
    desk.work(1)
    assert (desk.job(job).state, desk.job(job).waits) == ("done", None)


def test_a_replay_takes_what_was_rehearsed_and_is_refused_when_that_has_changed(desk: Desk) -> None:
    rehearsed = desk.start("rehearse")
    with pytest.raises(UserError, match="is not done") as refused:
        desk.start_rehearsed(rehearsed)
    assert refused.value.fault is SET_CHANGED
    desk.work(1)
    desk.answer("landed", *EVERY)
    desk.work(1)
    # Discarded and restored: as many as before, and not the same all the same.
    for kind in ("discard", "restore"):
        desk.start(kind)
        desk.work(1)
    assert [state for _, state, _ in desk.states()] == ["open"] * 5
    with pytest.raises(UserError, match="have changed"):
        desk.start_rehearsed(rehearsed)
    again = desk.start("rehearse")
    desk.work(1)
    desk.answer("landed", *EVERY)
    desk.work(1)
    job = desk.start_rehearsed(again)
    assert desk.job(job).events == desk.job(again).events
    desk.work(1)
    with pytest.raises(UserError, match="have changed"):  # The replay has them now
        desk.start_rehearsed(again)
    with pytest.raises(UserError, match="no rehearsal"):
        desk.start_rehearsed(job)
