"""Postgres or Kafka away: the writer stays, says why, and lands what waited; stopping still works."""

import os
import signal
from pathlib import Path

from stack.postgres import Postgres
from stack.services import Service
from tests.faults.conftest import Ground
from tests.fixtures.fix_stack import StartWriter
from tests.fixtures.scenes import Scene, exit_code, ready
from tests.fixtures.writer import eventually


def test_while_postgres_is_down_the_writer_waits_and_then_lands_everything(
    ground: Ground, own_postgres: Postgres, start_writer: StartWriter, tmp_path: Path
) -> None:
    scene = Scene(
        start_writer=start_writer,
        bootstrap=ground.kafka.bootstrap,
        dsn=own_postgres.dsn,
        gateway=ground.gateway,
        folder=tmp_path,
    )
    scene.send(50)
    service = scene.writer()
    scene.all_landed_once()
    before = scene.group()
    own_postgres.kill()
    scene.send(50)
    eventually(lambda: ready(service)[0] == 503)
    assert ready(service)[1]["reason"]
    assert scene.group() == before
    own_postgres.start()
    own_postgres.wait_ready()
    scene.all_landed_once()
    eventually(lambda: ready(service)[0] == 200)
    assert service.child.exit_code is None

    own_postgres.stop()
    eventually(lambda: ready(service)[0] == 503)
    os.kill(service.pid, signal.SIGTERM)
    code, seconds = exit_code(service)
    assert (code, seconds < 10) == (0, True), seconds
    own_postgres.start()
    own_postgres.wait_ready()


def test_a_writer_that_starts_before_postgres_waits_for_it(
    ground: Ground, own_postgres: Postgres, start_writer: StartWriter, tmp_path: Path
) -> None:
    scene = Scene(
        start_writer=start_writer,
        bootstrap=ground.kafka.bootstrap,
        dsn=own_postgres.dsn,
        gateway=ground.gateway,
        folder=tmp_path,
    )
    own_postgres.stop()
    scene.send(20)
    service = scene.writer(wait=False)
    eventually(lambda: service.child.running and _asked(service), 180)
    own_postgres.start()
    own_postgres.wait_ready()
    scene.all_landed_once()


def _asked(service: Service) -> bool:
    return b"database_unavailable" in service.log.read_bytes()


def test_kafka_restarts_under_the_writer(ground: Ground, scene: Scene) -> None:
    scene.send(50)
    service = scene.writer()
    scene.all_landed_once()
    ground.kafka.kill()
    ground.kafka.start()
    ground.kafka.wait_ready()
    eventually(lambda: _accepted(scene))
    scene.all_landed_once()
    assert service.child.exit_code is None
    eventually(lambda: ready(service)[0] == 200)


def _accepted(scene: Scene) -> bool:
    try:
        scene.send(50)
    except AssertionError:  # the gateway answers 503 until it has its connections again
        return False
    return True


def test_sigterm_while_kafka_is_away_ends_the_writer(ground: Ground, scene: Scene) -> None:
    scene.send(10)
    service = scene.writer()
    scene.all_landed_once()
    ground.kafka.stop()
    try:
        eventually(lambda: b"Unable connect" in service.log.read_bytes())
        os.kill(service.pid, signal.SIGTERM)
        code, seconds = exit_code(service)
        assert (code, seconds < 15) == (0, True), seconds
    finally:
        ground.kafka.start()
        ground.kafka.wait_ready()


def test_while_kafka_is_away_the_writer_is_not_ready(ground: Ground, scene: Scene) -> None:
    service = scene.writer()
    ground.kafka.stop()
    try:
        eventually(lambda: ready(service)[0] == 503, 20)
    finally:
        ground.kafka.start()
        ground.kafka.wait_ready()
