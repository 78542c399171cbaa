"""A worker that starts slowly is left alone, and one that fails again and again is started less often."""

import logging
from multiprocessing import Pipe
from typing import ClassVar

import pytest
import uvicorn
from uvicorn.config import STARTUP_FAILURE

from services.ingest.process import workers
from services.ingest.process.workers import Workers


class Worker:
    """A process for uvicorn's supervisor, with scripted answers."""

    started: ClassVar[list["Worker"]] = []
    #: Whether those that are started from now on get ready.
    gets_ready = False

    def __init__(self, *_: object) -> None:
        self.pid = len(self.started) + 1
        self.exitcode: int | None = None
        self.answers = True
        self.ready = self.gets_ready
        self.process = self
        self.parent_conn, self.child_conn = Pipe()
        self.started.append(self)

    def start(self) -> None: ...

    def join(self) -> None: ...

    def is_alive(self) -> bool:
        return self.exitcode is None

    def kill(self) -> None:
        self.exitcode = -9 if self.exitcode is None else self.exitcode

    def ping(self, _: float) -> bool:
        return self.answers

    def is_ready(self, _: float) -> bool:
        return self.answers and self.ready


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(workers, "time", clock := Clock())
    return clock


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Workers:  # noqa: ARG001 - what the supervisor reads
    monkeypatch.setattr(Worker, "started", [])
    monkeypatch.setattr(Worker, "gets_ready", False)
    monkeypatch.setattr(workers, "Process", Worker)
    monkeypatch.setattr("uvicorn.supervisors.multiprocess.Process", Worker)
    monkeypatch.setattr("uvicorn.supervisors.multiprocess.SIGNALS", {})
    made = Workers(uvicorn.Config("none", workers=2, log_config=None), [], start_seconds=120)
    made.init_processes()
    return made


def test_a_worker_has_its_time_to_start(supervisor: Workers, clock: Clock) -> None:
    slow, quick = Worker.started
    quick.ready, slow.answers = True, False
    for clock.now in (1030.0, 1119.0):
        supervisor.keep_subprocess_alive()
    assert len(Worker.started) == 2
    slow.answers = slow.ready = True
    supervisor.keep_subprocess_alive()
    clock.now = 2000.0
    supervisor.keep_subprocess_alive()
    assert len(Worker.started) == 2


def test_a_worker_that_serves_and_stops_answering_is_replaced_at_once(
    supervisor: Workers, caplog: pytest.LogCaptureFixture
) -> None:
    for each in Worker.started:
        each.ready = True
    supervisor.keep_subprocess_alive()
    Worker.started[0].answers = False
    supervisor.keep_subprocess_alive()
    supervisor.keep_subprocess_alive()
    assert (len(Worker.started), Worker.started[0].exitcode) == (3, -9)
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert (record.message, record.reason) == ("worker replaced", "no answer for 5 s")  # type: ignore[attr-defined]


def test_a_worker_that_does_not_get_ready_is_started_at_growing_intervals(
    supervisor: Workers, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    Worker.started[1].ready = True
    pauses = []
    for _ in range(7):
        clock.now += 121
        supervisor.keep_subprocess_alive()
        pauses.append(caplog.records[-1].starts_again_in_s)  # type: ignore[attr-defined]
        clock.now += pauses[-1]
        supervisor.keep_subprocess_alive()
    assert pauses == [0, 2, 4, 8, 16, 30, 30]
    assert caplog.records[-1].reason == "not ready after 120 s"  # type: ignore[attr-defined]
    Worker.started[-1].ready = True
    supervisor.keep_subprocess_alive()
    Worker.started[-1].exitcode = 1
    supervisor.keep_subprocess_alive()
    assert caplog.records[-1].starts_again_in_s == 0  # type: ignore[attr-defined]


def test_latest_of_several_readiness_answers_counts(supervisor: Workers) -> None:
    slow, _ = Worker.started
    for answer in (False, False, True):
        slow.child_conn.send(answer)
    supervisor.keep_subprocess_alive()
    assert slow not in supervisor._starting


def test_a_gateway_that_cannot_start_ends(supervisor: Workers) -> None:
    Worker.started[0].exitcode = STARTUP_FAILURE
    supervisor.keep_subprocess_alive()
    assert supervisor.should_exit.is_set()
    assert len(Worker.started) == 2
