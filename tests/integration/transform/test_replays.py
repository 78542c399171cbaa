"""Replays of events that a transform has parked: each gets exactly one end state."""

import multiprocessing
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from services.admin.figures.stored_sql import StoredReader
from services.admin.jobs import job_sets
from services.admin.jobs.job_session import JobSession
from services.admin.jobs.kafka_transform_replays import TransformReplays
from services.admin.store import jobs_sql, results_sql, sets_sql
from services.admin.store.control_sql import transaction
from services.admin.store.ingester_sql import IngesterSession
from services.admin.store.jobs_sql import Job, Plan
from services.ops.findings import Source
from services.ops.kafka_logs import LogRecord
from services.ops.parked.parked_events import stored_event
from shared import failpoints, wire
from shared.errors import TRANSFORM_OTHER_TYPE, UserError
from shared.kafka_security import Brokers
from shared.registry import Snapshot
from shared.registry.memory import MemoryRegistry
from shared.transform_replay import Replay
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Templates, created
from tests.fixtures.transforms import DIGEST, TransformScene
from tests.fixtures.ui import serving
from tests.fixtures.writer import eventually, execute, records, rows
from tests.integration.transform.test_driver import driver
from tests.integration.transform.test_kills import run_apart

_FORK = multiprocessing.get_context("fork")


def fails(_: Any) -> Any:
    raise ValueError


def _log_record(record: Any) -> LogRecord:
    return LogRecord(
        source=Source(wire.USER_ERRORS, record.partition),
        offset=record.offset,
        timestamp=0,
        key=record.key,
        value=record.value,
        header_count=len(record.headers),
        headers=record.headers,
    )


@dataclass
class Desk:
    """A control database with the parked events of a scene, and a session of jobs."""

    scene: TransformScene
    dsn: str
    registry: Snapshot

    def __post_init__(self) -> None:
        self.session = self.open()

    def open(self) -> JobSession:
        transforms = TransformReplays(Brokers(self.scene.bootstrap), lambda: self.registry)
        return JobSession.open(self.dsn, transforms=transforms)

    def keep(self) -> None:
        """Store what the scene's transform has parked."""
        there = [_log_record(each) for each in self.scene.parked()]
        ingester = IngesterSession.open(self.dsn)
        assert ingester is not None
        ingester.keep([each for each in map(stored_event, there) if each], {})
        ingester.close()

    def start(self, plan: Plan | None = None, kind: str = "replay") -> int:
        plan = plan or Plan()
        with transaction(self.dsn) as conn:
            deployed = self.registry.transforms
            filters = job_sets.with_transforms(conn, kind, {"event_name": "source"}, plan.to, deployed)
            events = sets_sql.frozen(conn, filters)
            counted = sets_sql.count(conn, kind, events)
            if not counted:
                job_sets.refuse_transformed(conn, kind, events)
            by = ("ann", "fixed")
            return jobs_sql.add(conn, kind, events, by, rate=None, counted=counted, plan=plan)

    def work(self, steps: int = 3, session: JobSession | None = None) -> None:
        """Do some steps, whenever they are due."""
        for _ in range(steps):
            execute(self.dsn, "UPDATE onramp_admin.jobs SET next_at = now()")
            (session or self.session).work()

    def job(self, number: int) -> Job:
        with transaction(self.dsn) as conn:
            found = jobs_sql.job(conn, number)
        assert found is not None
        return found

    def results(self, number: int) -> dict[str, int]:
        with transaction(self.dsn) as conn:
            return {outcome: events for outcome, _, events in results_sql.read(conn, number)}

    def states(self) -> list[tuple[int, str, int]]:
        """Offset, state and attempt of each event."""
        return rows(self.dsn, 'SELECT "offset", state, attempt FROM onramp_admin.events ORDER BY 1')

    def failures(self) -> list[str]:
        return [
            code
            for (code,) in rows(
                self.dsn,
                "SELECT failed ->> 'code' FROM onramp_admin.events WHERE failed IS NOT NULL ORDER BY id",
            )
        ]

    def staged(self) -> list[int]:
        """The offsets of the events on the topic of replays, as often as they are there."""
        contexts = [
            each.headers[wire.HEADER_CONTEXT]
            for each in records(self.scene.bootstrap, wire.TRANSFORM_REPLAYS)
            if each.key == self.scene.name.encode()
        ]
        found = [Replay.of_context(context, self.scene.name) for context in contexts]
        return sorted(each.offset for each in found if each)

    def emitted(self) -> Counter[str]:
        """The ids of outputs, with their numbers."""
        return Counter(
            orjson.loads(each.value or b"")["metadata"]["id"].removeprefix(f"{self.scene.name}:")
            for each in self.scene.outputs()
        )

    def apart(self, failpoint: str, action: str, steps: int = 3) -> Any:
        """Work at the jobs in a process of its own, with a failpoint."""

        def target() -> None:
            failpoints._ARMED.clear()
            failpoints._ARMED.update({failpoint: action})
            os.environ.pop("ONRAMP_FAILPOINT_PID", None)
            self.work(steps, self.open())

        process = _FORK.Process(target=target)
        process.start()
        return process


@pytest.fixture
def scene(kafka: HasBootstrap) -> TransformScene:
    return TransformScene.make(kafka.bootstrap)


@contextmanager
def desk_of(scene: TransformScene, templates: Templates) -> Iterator[Desk]:
    with created(templates.server, templates.control) as control:
        desk = Desk(scene, control.dsn, MemoryRegistry(scene.document()).snapshot())
        with closing(desk.session):
            yield desk


@pytest.fixture
def desk(scene: TransformScene, templates: Templates) -> Iterator[Desk]:
    """Three parked events: an emitted, a dropped and a failing one, as the function is today."""
    scene.send([2, 0, None])
    scene.run(fails)
    with desk_of(scene, templates) as desk:
        desk.keep()
        yield desk


def test_each_replayed_event_gets_one_end_state_of_its_outcome(desk: Desk) -> None:
    scene = desk.scene
    job = desk.start()
    assert desk.job(job).counted == 3
    desk.work()
    assert desk.states() == [(n, "replaying", 1) for n in range(3)]
    assert desk.staged() == [0, 1, 2]

    scene.run()
    desk.work()

    assert desk.states() == [(0, "replayed", 1), (1, "replayed", 1), (2, "open", 1)]
    assert desk.results(job) == {"emitted": 1, "dropped": 1, "failed": 1}
    assert (desk.job(job).state, desk.job(job).changed, desk.job(job).failed) == ("done", 2, 1)
    assert desk.failures() == ["transform_failed"]
    assert desk.emitted() == {"0-0": 1, "0-0:2": 1}
    assert len(scene.parked()) == 3
    (output, _) = scene.outputs()
    assert output.headers[wire.HEADER_SOURCE] == f"{scene.source}/0/0".encode()
    assert output.headers[wire.HEADER_TRANSFORM] == f"{scene.name}@{DIGEST}".encode()
    totals = scene.totals()[wire.TRANSFORM_REPLAYS, 0]
    assert [totals[name] for name in ("emitted", "dropped", "parked", "outputs")] == [1, 1, 1, 2]


def test_an_event_that_failed_again_is_replayed_with_a_fix_under_its_next_attempt(desk: Desk) -> None:
    desk.start()
    desk.work()
    desk.scene.run(fails)
    desk.work()
    assert desk.states() == [(n, "open", 1) for n in range(3)]

    job = desk.start(Plan(fix='[{"default":"/outputs","value":1}]'))
    desk.work()
    desk.scene.run()
    desk.work()

    assert desk.results(job) == {"emitted": 2, "dropped": 1}
    assert desk.states() == [(n, "replayed", 2) for n in range(3)]
    assert desk.emitted() == {"0-0": 1, "0-0:2": 1, "0-2": 1}


@pytest.mark.parametrize(
    "point",
    [
        "admin.transform_staged",
        pytest.param("admin.transform_sent", marks=pytest.mark.full),
        pytest.param("admin.mid_job", marks=pytest.mark.full),
    ],
)
def test_an_admin_service_that_is_killed_in_a_step_stages_nothing_twice(desk: Desk, point: str) -> None:
    desk.start()
    if point == "admin.mid_job":
        desk.work(2)
        desk.scene.run()
    process = desk.apart(point, "kill")
    process.join(60)
    assert process.exitcode == -signal.SIGKILL

    desk.work()
    desk.scene.run()
    desk.work()

    assert desk.staged() == [0, 1, 2]
    assert desk.emitted() == {"0-0": 1, "0-0:2": 1}
    assert desk.states() == [(0, "replayed", 1), (1, "replayed", 1), (2, "open", 1)]


def test_a_frozen_admin_service_beside_the_next_one_is_fenced(desk: Desk, tmp_path: Path) -> None:
    desk.start()
    desk.work(1)  # marked
    point = "admin.transform_sent"
    os.environ["ONRAMP_FAILPOINT_DIR"] = str(tmp_path)
    try:
        process = desk.apart(point, "pause", steps=1)
        while not (tmp_path / point).exists():
            process.join(0.05)
        # Postgres has dropped the frozen one's connection.
        execute(
            desk.dsn,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND state = 'idle in transaction'",
        )
        desk.work(2)
        (tmp_path / point).unlink()
        process.join(60)
    finally:
        del os.environ["ONRAMP_FAILPOINT_DIR"]
    desk.scene.run()
    desk.work()

    assert desk.staged() == [0, 1, 2]
    assert desk.emitted() == {"0-0": 1, "0-0:2": 1}
    assert desk.states() == [(0, "replayed", 1), (1, "replayed", 1), (2, "open", 1)]


@pytest.mark.parametrize("step", ["before_commit", pytest.param("committed", marks=pytest.mark.full)])
def test_a_run_that_is_killed_between_leaves_one_outcome_of_each_event(desk: Desk, step: str) -> None:
    job = desk.start()
    desk.work()
    with run_apart(desk.scene.order(), step, "kill") as (process, _):
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
    desk.work()

    assert desk.scene.run().fault is None
    desk.work()

    assert desk.results(job) == {"emitted": 1, "dropped": 1, "failed": 1}
    assert desk.emitted() == {"0-0": 1, "0-0:2": 1}
    assert desk.states() == [(0, "replayed", 1), (1, "replayed", 1), (2, "open", 1)]


def test_a_cancel_opens_what_is_not_on_kafka_and_waits_for_the_rest(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.admin.jobs.kafka_transform_replays._MAX_ATTEMPTS", 1)
    job = desk.start()
    desk.work(2)
    (staged,) = desk.staged()
    others = [(n, "open", 1) for n in range(3) if n != staged]
    with transaction(desk.dsn) as conn:
        assert jobs_sql.cancel(conn, job)
    desk.work()

    assert desk.states() == sorted([*others, (staged, "replaying", 1)])
    found = desk.job(job)
    assert (found.state, found.waits) == (
        "cancelling",
        f"1 events are on Kafka for transform {desk.scene.name}",
    )
    desk.scene.run(lambda _: None)
    desk.work()

    assert desk.states() == sorted([*others, (staged, "replayed", 1)])
    assert desk.job(job).state == "cancelled"


def test_a_replay_of_a_removed_transform_waits_and_its_cancel_opens_all(desk: Desk) -> None:
    job = desk.start()
    desk.work()
    desk.registry = MemoryRegistry({}).snapshot()
    desk.work()
    text = f"transform {desk.scene.name} is not deployed: deploy it, or cancel the replay"
    assert desk.job(job).waits == text
    with transaction(desk.dsn) as conn:
        jobs_sql.cancel(conn, job)
    desk.work()

    assert desk.states() == [(n, "open", 1) for n in range(3)]
    assert desk.job(job).state == "cancelled"


def test_an_event_of_another_type_than_the_transform_reads_is_open_again(desk: Desk) -> None:
    desk.start()
    desk.work()

    desk.scene.run(source_type="other")
    desk.work()

    assert desk.states() == [(n, "open", 1) for n in range(3)]
    assert desk.failures() == [TRANSFORM_OTHER_TYPE.code] * 3
    assert desk.scene.totals()[wire.TRANSFORM_REPLAYS, 0]["parked"] == 3


@pytest.mark.parametrize("kind", ["rehearse", "replay"])
def test_a_rehearsal_and_a_replay_into_a_table_are_refused(desk: Desk, kind: str) -> None:
    text = f"transform {desk.scene.name} has parked these events: {kind} them without `to`"
    with pytest.raises(UserError, match=text):
        desk.start(Plan(to="public.flights"), kind)


def test_a_rehearsal_has_the_outcomes_and_writes_no_output(desk: Desk) -> None:
    scene = desk.scene
    job = desk.start(kind="rehearse")
    desk.work(1)
    assert desk.job(job).waits == f"no answer yet from transform {scene.name}"

    scene.run()
    desk.work(1)

    found = desk.job(job)
    assert (found.state, found.changed, found.failed) == ("done", 3, 1)
    assert desk.results(job) == {"emitted": 1, "dropped": 1, "failed": 1}
    assert desk.states() == [(n, "open", 0) for n in range(3)]
    assert (scene.outputs(), len(scene.parked())) == ([], 3)
    totals = scene.totals()[wire.TRANSFORM_REPLAYS, 0]
    assert [totals[name] for name in ("filtered", "emitted", "dropped", "parked")] == [3, 0, 0, 0]


def test_a_replay_of_a_rehearsal_lands_what_the_rehearsal_with_its_fix_promised(desk: Desk) -> None:
    rehearsal = desk.start(Plan(fix='[{"default":"/outputs","value":1}]'), "rehearse")
    desk.work(1)
    desk.scene.run()
    desk.work(1)
    assert desk.results(rehearsal) == {"emitted": 2, "dropped": 1}

    with transaction(desk.dsn) as conn:
        events, plan = job_sets.rehearsed_set(conn, rehearsal, {})
        job = jobs_sql.add(conn, "replay", events, ("ann", "fixed"), rate=None, counted=3, plan=plan)
    desk.work()
    desk.scene.run()
    desk.work()

    assert desk.results(job) == {"emitted": 2, "dropped": 1}
    assert desk.states() == [(n, "replayed", 1) for n in range(3)]
    assert desk.emitted() == {"0-0": 1, "0-0:2": 1, "0-2": 1}


@pytest.mark.full
def test_a_rehearsal_in_parts_that_is_killed_counts_each_event_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.admin.jobs.kafka_transform_replays._MAX_ATTEMPTS", 1)
    job = desk.start(kind="rehearse")
    desk.work(2)
    desk.scene.run()
    assert len(desk.staged()) == 2
    desk.work(1)
    desk.scene.run()
    process = desk.apart("admin.mid_job", "kill")
    process.join(60)
    assert process.exitcode == -signal.SIGKILL

    desk.work()

    assert desk.results(job) == {"emitted": 1, "dropped": 1, "failed": 1}
    assert desk.staged() == [0, 1, 2]


def test_a_rehearsal_of_a_removed_transform_waits(desk: Desk) -> None:
    job = desk.start(kind="rehearse")
    desk.registry = MemoryRegistry({}).snapshot()
    desk.work(1)

    text = f"transform {desk.scene.name} is not deployed: deploy it, or cancel the rehearsal"
    assert desk.job(job).waits == text


def test_another_transforms_events_stay_open(desk: Desk) -> None:
    desk.registry = MemoryRegistry({}).snapshot()

    with pytest.raises(UserError, match="while the transform is deployed"):
        desk.start()


def test_a_running_service_takes_replays(desk: Desk) -> None:
    def has_ended() -> bool:
        desk.work(1)
        return desk.job(job).state == "done"

    with driver(desk.scene):
        job = desk.start()
        eventually(has_ended)

    assert desk.states() == [(0, "replayed", 1), (1, "replayed", 1), (2, "open", 1)]


def test_events_of_transforms_are_in_no_balance_of_accepted_events(desk: Desk) -> None:
    with closing(StoredReader(desk.dsn)) as reader:
        stored = reader.read()

    assert (dict(stored.states), dict(stored.open_by_name)) == ({}, {"source": 3})


def test_the_page_of_a_group_rehearses_a_fix_with_the_transform(desk: Desk) -> None:
    execute(desk.dsn, "DELETE FROM onramp_admin.installation")
    with serving(desk.dsn, known=desk.scene.document()) as service:
        browser = service.browser().log_in("otto")
        [(group,)] = rows(desk.dsn, "SELECT DISTINCT group_id FROM onramp_admin.parked")
        page = browser.get(f"/groups/{group}").text
        assert 'id="fix-form"' in page
        assert 'name="to"' not in page
        answer = browser.write(f"/groups/{group}/fix", json='[{"default":"/outputs","value":1}]')
        assert answer.status_code == 303, answer.text
        desk.work(1)
        desk.scene.run()
        desk.work(1)
        shown = browser.get(answer.headers["location"].removeprefix("/ui")).text
        assert re.findall(r"<dt>([a-z ]+)</dt><dd><span class=\"num\">(\d+)", shown) == [
            ("would be emitted", "2"),
            ("would be dropped", "1"),
            ("still fail", "0"),
        ]
        (number,) = re.findall(rf'href="/ui/groups/{group}/replay/(\d+)"', shown)
        asked = browser.get(f"/groups/{group}/replay/{number}").text

    assert (
        f"to transform {desk.scene.name}, with its fix. 2 of them would be emitted, and 1 dropped." in asked
    )


def test_the_page_of_a_group_replays_events_of_a_transform_without_a_rehearsal(desk: Desk) -> None:
    execute(desk.dsn, "DELETE FROM onramp_admin.installation")
    with serving(desk.dsn, known=desk.scene.document()) as service:
        browser = service.browser().log_in("otto")
        [(group,)] = rows(desk.dsn, "SELECT DISTINCT group_id FROM onramp_admin.parked")
        page = browser.get(f"/groups/{group}").text
        assert f"transform {desk.scene.name}" in page
        assert f'href="/ui/groups/{group}/replay"' in page
        form = browser.get(f"/groups/{group}/replay").text
        expect, upto = (re.findall(rf'name="{name}" value="([^"]+)"', form)[0] for name in ("expect", "upto"))
        answer = browser.write(f"/groups/{group}/replay", expect=expect, upto=upto, reason="corrected")
        assert answer.status_code == 303, answer.text
        desk.work()
        desk.scene.run()
        desk.work()
        shown = browser.get(answer.headers["location"].removeprefix("/ui")).text

    assert desk.states() == [(0, "replayed", 1), (1, "replayed", 1), (2, "open", 1)]
    assert "emitted" in shown
