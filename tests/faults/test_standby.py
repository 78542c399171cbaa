"""Standby writers under supervisors: one is active, the others wait, and fencing holds.

Real processes, with all of a writer but Spark's JVM: a kill is a kill, and a start takes a second.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch

import httpx2
import orjson
import pytest
from aiokafka.errors import KafkaConnectionError

from services.writer.kafka.cluster import Cluster
from stack.ports import free_port
from tests.fixtures.inline import Inline
from tests.fixtures.scenes import QUICK, Scene
from tests.fixtures.second_database import Other
from tests.fixtures.silent_servers import Stopped
from tests.fixtures.writer import eventually, landed, rows
from tests.unit.conventions.tree import ROOT

_MAIN = """
import os, sys
from services.writer import __main__
from services.writer.driver import app
from shared.kafka_security import Brokers
from tests.fixtures.inline import Reader
app.Spark = lambda _: Reader(Brokers(os.environ["ONRAMP_KAFKA_BOOTSTRAP"]))
sys.exit(__main__.main())
"""
_PATIENT = 120


class Writer:
    """A writer's process."""

    def __init__(self, scene: Scene, log: Path) -> None:
        self.port = free_port()
        env = (
            os.environ
            | QUICK
            | {
                "ONRAMP_WRITER_TOPICS": scene.topic.replace(".", r"\."),
                "ONRAMP_WRITER_DATABASE": scene.database,
                "ONRAMP_WRITER_DSN": scene.dsn,
                "ONRAMP_WRITER_HTTP_PORT": str(self.port),
                "ONRAMP_WRITER_STANDBY": "true",
                "ONRAMP_KAFKA_BOOTSTRAP": scene.bootstrap,
            }
        )
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _MAIN], cwd=ROOT, env=env, stdout=out, stderr=out
            )

    def says(self, status: str) -> bool:
        """Whether /readyz answers 200 and this status."""
        assert self.process.poll() is None, "the writer has ended"
        with suppress(httpx2.HTTPError):
            answer = self.ask("readyz")
            return answer.status_code == 200 and answer.json()["status"] == status
        return False

    def ask(self, page: str) -> Any:
        return httpx2.get(f"http://127.0.0.1:{self.port}/{page}", timeout=5)

    def becomes(self, status: str) -> "Writer":
        eventually(lambda: self.says(status), _PATIENT)
        return self

    def ends(self, number: int) -> int:
        """Send a signal that ends it; returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(_PATIENT)


@pytest.fixture
def start(inline: Scene, tmp_path: Path) -> Iterator[Any]:
    started: list[Writer] = []

    def start() -> Writer:
        started.append(Writer(inline, tmp_path / "writers.log"))
        return started[-1]

    yield start
    for writer in started:
        writer.process.kill()
        writer.process.wait()


def test_standby_takes_over_when_the_active_writer_ends_but_not_while_it_is_slow(
    inline: Scene, start: Any
) -> None:
    first = start().becomes("consuming")
    second = start().becomes("standby")
    assert "onramp_writer_standby 1.0" in second.ask("metrics").text
    inline.send(50)
    inline.all_landed_once()

    # One that is only slow is not gone, however often it is asked.
    first.process.send_signal(signal.SIGSTOP)
    asked: set[Any] = set()

    def asked_often() -> bool:
        asked.update(rows(inline.dsn, _ASKED))
        return len(asked) > 10

    eventually(asked_often, _PATIENT)
    assert second.says("standby")
    first.process.send_signal(signal.SIGCONT)
    inline.send(50)
    inline.all_landed_once()
    assert first.says("consuming")

    first.ends(signal.SIGKILL)
    second.becomes("consuming")
    assert "onramp_writer_standby 0.0" in second.ask("metrics").text
    third = start().becomes("standby")
    inline.send(50)
    inline.all_landed_once()

    assert second.ends(signal.SIGTERM) == 0
    third.becomes("consuming")
    inline.send(50)
    inline.all_landed_once()


def test_a_standby_that_is_stopped_ends_and_one_that_does_not_ask_fences(inline: Scene) -> None:
    landing = inline.writer(standby=True)
    waiting = inline.writer(standby=True, wait=False)
    eventually(lambda: waiting.job._status.state == "standby", _PATIENT)
    waiting.stop()
    assert waiting.exit == 0

    inline.writer(standby=False)
    assert landing.ended(_PATIENT) == 3
    inline.writer(standby=True)
    inline.send(20)
    inline.all_landed_once()


def test_while_the_first_database_is_out_the_next_has_the_lock(inline: Scene, other: Other) -> None:
    env = QUICK | {
        "ONRAMP_WRITER_TOPICS": inline.topic.replace(".", r"\."),
        "ONRAMP_WRITER_DATABASES": orjson.dumps({inline.database: inline.dsn}).decode(),
        "ONRAMP_WRITER_STANDBY": "true",
    }
    landing, waiting = both = [Inline(inline.bootstrap, other.dsn, env) for _ in range(2)]
    try:
        landing.start().wait_ready()
        eventually(lambda: rows(inline.dsn, _LOCKED) == [(1,)], _PATIENT)
        other.close()
        waiting.start()
        eventually(lambda: waiting.job._status.state == "standby", _PATIENT)
        assert landing.exit is None
    finally:
        for writer in both:
            writer.stop()


def test_a_database_that_hangs_holds_up_no_end_and_no_successor(
    inline: Scene, hung: Other, server: Stopped
) -> None:
    env = QUICK | {
        "ONRAMP_WRITER_TOPICS": inline.topic.replace(".", r"\."),
        "ONRAMP_WRITER_DATABASE": hung.name,
        "ONRAMP_WRITER_DATABASES": orjson.dumps({inline.database: inline.dsn}).decode(),
        "ONRAMP_WRITER_STANDBY": "true",
        **inline.route(Other(inline.dsn, inline.database)).env,
    }
    landing, waiting = both = [Inline(inline.bootstrap, hung.dsn, env) for _ in range(2)]
    try:
        landing.start().wait_ready()
        eventually(lambda: rows(inline.dsn, _LOCKED) == [(1,)], _PATIENT)
        waiting.start()
        eventually(lambda: waiting.job._status.state == "standby", _PATIENT)
        server.stop()
        eventually(lambda: landing.states[hung.name] == "out", _PATIENT)
        landing.stop()
        inline.send(20)
        eventually(lambda: inline.landed() == 20, _PATIENT)
        server.go_on()
        eventually(lambda: landed(hung.dsn, inline.name) == 20, _PATIENT)
    finally:
        server.go_on()
        for writer in both:
            writer.stop()


_LOCKED = """
    SELECT count(*)::int FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
    WHERE locktype = 'advisory' AND granted AND datname = current_database()
"""
#: When each writer asked last; the one that is stopped asks no more.
_ASKED = "SELECT query_start FROM pg_stat_activity WHERE application_name = 'onramp-writer standby'"


def test_a_standby_shows_whether_kafka_answers_it(inline: Scene) -> None:
    inline.writer(standby=True)
    waiting = inline.writer(standby=True, wait=False, metrics_seconds=0.05)
    eventually(lambda: waiting.job._status.state == "standby", _PATIENT)
    answered, reachable = "onramp_writer_kafka_answered_timestamp_seconds", "onramp_writer_kafka_reachable"
    before = waiting.shown[answered]
    eventually(lambda: waiting.shown[answered] > before, _PATIENT)
    assert waiting.shown[reachable] == 1
    asks = AsyncMock(side_effect=KafkaConnectionError)
    with patch.object(Cluster, "cluster_id", asks):
        eventually(lambda: waiting.shown[reachable] == 0, _PATIENT)
    eventually(lambda: waiting.shown[reachable] == 1, _PATIENT)
