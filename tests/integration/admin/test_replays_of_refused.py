"""Replays of events whose destination was refused, by jobs and by the writer's own code in both databases."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import orjson
import pytest

from services.admin.jobs.job_session import JobSession
from services.admin.store import jobs_sql, recheck_sql, sets_sql
from services.admin.store.control_sql import transaction
from services.writer.model.routes import Grant, RoutedDatabase, Routes
from services.writer.postgres.database import Database, configured
from services.writer.postgres.pool import transaction as in_writer
from services.writer.replay.rehearse import Rehearsal
from services.writer.replay.replay import Replay
from services.writer.settings import WriterSettings
from services.writer.settle import ledger
from shared import failpoints
from shared.kafka_read.offsets import Generation
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.writer import event, execute, rows
from tests.integration.admin.conftest import EPOCH, Stage, database_beside, disconnect
from tests.integration.admin.job_bench import Desk, desk_of

OPEN = ("events", "public")
#: The registry once it was mended: `wh` is known, and topics may address its tables.  `gone` stays unknown.
PLACES = (RoutedDatabase("onramp", schemas=OPEN), RoutedDatabase("wh", schemas=OPEN))
MENDED = Routes("onramp", PLACES, (Grant("*", "*", "public"),))
#: Packets for `wh`; one that has landed in `onramp` and is for `wh` too; one for nobody; an envelope that was
#: refused whole.
TO_WH, TOO, NOBODY, WHOLE = (0, 1), 2, 3, 4
EVERY = (*TO_WH, TOO, NOBODY, WHOLE)

#: The default database has what it has sorted once more, for other routes.
AGAIN = """
    INSERT INTO onramp.replays
        (topic_id, topic, partition, "offset", destination, attempt, job, value, timestamp)
    SELECT topic_id, topic, partition, "offset", destination, attempt, job, '{value}'::bytea, now()
    FROM onramp.replayed WHERE outcome = 'sorted'
"""


def _packet(x: int, *databases: str) -> bytes:
    named = [{"type": "postgres", "vanity": d, "schema": "public", "table": "t"} for d in databases]
    return orjson.dumps({"pipeline_context": {"destinations": named}, "data": {"x": x}})


class CutError(Exception):
    """Ends a step where it is."""


@dataclass
class Mended:
    """A desk whose five events were refused, and `wh`, which has come since; neither table has a key."""

    desk: Desk
    wh: Database

    @property
    def databases(self) -> dict[str, str]:
        return {"onramp": self.desk.stage.dsn, "wh": self.wh.dsn}

    def start(self, kind: str = "replay") -> int:
        with transaction(self.desk.dsn) as conn:
            events = sets_sql.frozen(conn, {})
            counted = sets_sql.count(conn, kind, events, self.databases)
            return jobs_sql.add(conn, kind, events, ("ann", "mended"), rate=None, counted=counted)

    def land(self, name: str, routes: Routes = MENDED) -> None:
        """Let the writer land staged events of a database, and answer rehearsals."""
        database = self.wh if name == "wh" else self.desk.stage.database
        Replay(database).run(routes)
        Rehearsal(database, may_land=lambda: True).run(routes)

    def run(self) -> None:
        """Work at the job in turn with the writer, until it is done."""
        for name in ("onramp", "wh"):
            self.desk.work(2)
            self.land(name)
        self.desk.work(2)

    def states(self) -> list[str]:
        said = 'SELECT state FROM onramp_admin.events ORDER BY "offset"'
        return [state for (state,) in rows(self.desk.dsn, said)]

    def staged(self, name: str) -> list[int]:
        return [
            n for (n,) in rows(self.databases[name], 'SELECT "offset"::int FROM onramp.replays ORDER BY 1')
        ]

    def landed(self, name: str) -> list[int]:
        return [x for (x,) in rows(self.databases[name], "SELECT x FROM public.t ORDER BY 1")]


@pytest.fixture
def mended(stage: Stage, templates: Templates) -> Iterator[Mended]:
    stage.execute("CREATE TABLE public.t (x int)")
    values = [*(_packet(x, "wh") for x in TO_WH), _packet(TOO, "onramp", "wh"), _packet(NOBODY, "gone")]
    stage.settle(*values)
    stage.settle(event("whole", stage.name, n=1), large=True)
    with (
        database_beside(templates.server, templates.writer) as there,
        database_beside(templates.server, templates.control) as control,
        desk_of(stage, control) as desk,
    ):
        settings = WriterSettings(dsn=stage.dsn, databases={"wh": {"dsn": there}})
        found = Mended(desk, configured(settings)[1])
        with in_writer(found.wh, "driver") as conn:
            ledger.claim(conn, {Generation(stage.topic_id, stage.partition): stage.at}, EPOCH)
        stage.tell(stage.notes.baseline_entries({(stage.topic_id, 0): stage.at}, ["wh"]))
        execute(there, "CREATE TABLE public.t (x int)")
        desk.session = JobSession.open(control, found.databases)
        yield found
        disconnect()


def test_refused_event_lands_by_the_current_routes_or_fails_again_with_its_cause(mended: Mended) -> None:
    assert mended.states() == ["open"] * 5
    job = mended.start()
    assert mended.desk.job(job).counted == 5
    mended.desk.work(2)
    assert (mended.staged("onramp"), mended.staged("wh")) == ([*EVERY], [])
    mended.land("onramp")
    mended.desk.work(1)
    assert (mended.staged("onramp"), mended.staged("wh")) == ([], [*TO_WH, TOO])
    assert (mended.landed("onramp"), mended.landed("wh")) == ([TOO], [])  # it had landed there before
    mended.land("wh")
    mended.desk.work(2)
    assert mended.landed("wh") == [*TO_WH, TOO]
    assert mended.states() == ["replayed", "replayed", "replayed", "open", "replayed"]
    done = mended.desk.job(job)
    assert (done.state, done.changed, done.failed, done.waits) == ("done", 4, 1, None)
    [landed, failed] = mended.desk.results(job)
    assert (landed, failed[0], failed[2]) == (("landed", "", 4), "failed", 1)
    assert failed[1].startswith("The destination names no configured database")
    assert mended.desk.stage.rows(f"SELECT _id FROM events.{mended.desk.stage.name}") == [("whole",)]  # noqa: S608


def test_the_totals_reconcile_and_what_a_dump_has_lost_is_named_and_lands_once_more(mended: Mended) -> None:
    mended.start()
    mended.run()
    stage, control = mended.desk.stage, mended.desk.dsn
    report = stage.audit(control=control, wh=mended.wh.dsn)
    assert (report.findings, report.stored) == ([], {"open": 1, "replayed": 4})
    (line,) = report.lines
    assert (line.refused, line.accounted, line.outcomes) == (5, 6, {"landed": 1, "replayed": 4})

    # Another row than was replayed, and none.
    found = f"events.{stage.name}"
    stage.execute(f"UPDATE {found} SET payload = '{{}}'")  # noqa: S608
    assert {f.code.value for f in stage.audit(wh=mended.wh.dsn).findings} == {"corrupt"}
    stage.execute(f"DELETE FROM {found}")  # noqa: S608
    assert {f.code.value for f in stage.audit(wh=mended.wh.dsn).findings} == {"lost", "wrong_total"}

    execute(mended.wh.dsn, 'DELETE FROM onramp.replayed WHERE "offset" = 1; DELETE FROM public.t WHERE x = 1')
    execute(mended.wh.dsn, "UPDATE onramp.totals SET events = events - 1 WHERE outcome = 'replayed'")
    named = {(f.code.value, f.offset) for f in stage.audit(control=control, wh=mended.wh.dsn).findings}
    assert named == {("replay_lost", 1), ("lost", WHOLE), ("wrong_total", None)}
    assert any("not given" in said for said in stage.audit(control=control).unchecked)
    with transaction(control) as conn:
        rechecked = recheck_sql.recheck_page(conn, mended.databases, 0, 1_000)
        assert (rechecked.checked, [each.attempt.offset for each in rechecked.lost]) == (4, [1])
        recheck_sql.reopen(conn, rechecked.lost)
    mended.start()
    mended.run()
    assert mended.landed("wh") == [*TO_WH, TOO]
    assert not any(
        f.code.value == "replay_lost" for f in stage.audit(control=control, wh=mended.wh.dsn).findings
    )


def test_steps_that_are_cut_land_nothing_twice_and_lose_nothing(
    mended: Mended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill each step at its end, let the writer continue, and repeat it: from the mark to the outcome."""

    def cut(_: str) -> None:
        raise CutError

    mended.start()
    while mended.states() != ["replayed", "replayed", "replayed", "open", "replayed"]:
        with monkeypatch.context() as cutting:
            cutting.setattr(failpoints, "reach", cut)
            with pytest.raises(CutError):
                mended.desk.work(1)
        for name in mended.databases:
            mended.land(name)
        mended.desk.work(1)
    assert (mended.landed("wh"), mended.landed("onramp")) == ([*TO_WH, TOO], [TOO])
    assert (mended.staged("onramp"), mended.staged("wh")) == ([], [])


def test_replay_dropped_by_a_database_is_staged_there_again_under_the_same_attempt(mended: Mended) -> None:
    def grow_old(name: str) -> None:
        execute(mended.databases[name], "UPDATE onramp.replays SET staged_at = now() - interval '16 minutes'")
        mended.land(name)
        assert (mended.staged(name), mended.landed("wh")) == ([], [])

    mended.start()
    for name, offsets in (("onramp", [*EVERY]), ("wh", [*TO_WH, TOO])):
        mended.desk.work(2)
        grow_old(name)
        mended.desk.work(1)
        assert mended.staged(name) == offsets
        mended.land(name)
    mended.desk.work(2)
    assert mended.landed("wh") == [*TO_WH, TOO]
    attempts = rows(mended.wh.dsn, "SELECT DISTINCT attempt FROM onramp.replayed")
    assert attempts == [(1,)]


def test_an_attempt_is_sorted_once_though_the_routes_change_and_the_default_database_is_asked_again(
    mended: Mended,
) -> None:
    """Else it would land in two databases."""
    mended.start()
    mended.desk.work(2)
    mended.land("onramp")
    mended.desk.work(1)
    mended.land("wh")
    execute(mended.databases["onramp"], AGAIN.format(value=_packet(0, "onramp").decode()))
    mended.land("onramp")
    mended.desk.work(2)
    assert (mended.landed("wh"), mended.landed("onramp")) == ([*TO_WH, TOO], [TOO])


def test_a_cancel_reopens_what_it_took_back_from_either_database_and_nothing_that_landed(
    mended: Mended,
) -> None:
    job = mended.start()
    mended.desk.work(2)
    mended.land("onramp")
    mended.desk.work(1)
    execute(mended.wh.dsn, 'DELETE FROM onramp.replays WHERE "offset" = 1')  # dropped: nobody has it
    mended.land("wh")
    mended.desk.cancel(job)
    mended.desk.work()
    assert (mended.staged("onramp"), mended.staged("wh")) == ([], [])
    assert mended.states() == ["replayed", "open", "replayed", "open", "replayed"]
    assert mended.desk.job(job).state == "cancelled"
    mended.start()
    mended.run()
    assert mended.landed("wh") == [*TO_WH, TOO]


def test_while_the_database_that_it_belongs_to_is_away_the_job_waits_and_says_why(mended: Mended) -> None:
    job = mended.start()
    there = mended.desk.session
    mended.desk.work(2)
    mended.land("onramp")
    away = mended.databases | {"wh": "postgresql://x:hunter2@127.0.0.1:1/x"}
    mended.desk.session = replace(there, databases=away)
    mended.desk.work(2)
    assert mended.desk.job(job).waits == "database wh: SQLSTATE none (it cannot be reached)"
    assert mended.states() == ["replaying"] * 3 + ["open", "replayed"]
    mended.desk.session = there
    mended.desk.work(1)
    mended.land("wh")
    mended.desk.work(2)
    assert (mended.desk.job(job).state, mended.landed("wh")) == ("done", [*TO_WH, TOO])


def test_a_rehearsal_says_of_what_was_refused_whether_it_would_land_and_why_not(mended: Mended) -> None:
    job = mended.start("rehearse")
    mended.run()
    done = mended.desk.job(job)
    assert (done.state, done.changed, done.failed) == ("done", 5, 1)
    results = mended.desk.results(job)
    assert [(outcome, n) for outcome, _, n in results] == [("landed", 3), ("failed", 1), ("unknown", 1)]
    assert results[1][1].startswith("The destination names no configured database")
    assert results[2][1].endswith("is not there yet: a replay makes it")
    assert (mended.landed("wh"), mended.states()) == ([], ["open"] * 5)
    left = [rows(dsn, "SELECT count(*)::int FROM onramp.rehearsals") for dsn in mended.databases.values()]
    assert left == [[(0,)], [(0,)]]
