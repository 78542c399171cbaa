"""Postgres or Kafka unreachable: the writer keeps running, shows why, lands waiting events, and can stop."""

import os
import signal

import pytest

from shared.errors import DATABASE_UNAVAILABLE
from stack.postgres import Postgres
from tests.faults.conftest import Ground
from tests.fixtures.fix_stack import StartWriter
from tests.fixtures.inline import Inline
from tests.fixtures.scenes import Scene, exit_code, ready
from tests.fixtures.writer import eventually


def test_writer_that_loses_postgres_and_then_kafka_is_not_ready_and_stops_cleanly(
    ground: Ground, breakable_postgres: Postgres, on_breakable_postgres: Scene
) -> None:
    scene = on_breakable_postgres
    scene.send(50)
    writer: Inline = scene.writer()
    scene.all_landed_once()
    before = scene.group()
    breakable_postgres.kill()
    scene.send(50)
    eventually(lambda: not writer.job._status.ready()[0])
    assert writer.trouble
    assert scene.group() == before
    breakable_postgres.start()
    breakable_postgres.wait_ready()
    scene.all_landed_once()
    eventually(lambda: writer.job._status.ready()[0])

    ground.kafka.stop()
    try:
        eventually(lambda: not writer.job._status.ready()[0])
        writer.stop()
        assert writer.exit == 0
    finally:
        ground.kafka.start()
        ground.kafka.wait_ready()


@pytest.mark.full
def test_writer_process_that_loses_postgres_and_then_kafka_is_not_ready_and_ends_by_sigterm(
    ground: Ground, breakable_postgres: Postgres, on_breakable_postgres: Scene, start_writer: StartWriter
) -> None:
    scene = on_breakable_postgres
    scene.send(50)
    service = scene.writer(start=start_writer)
    scene.all_landed_once()
    before = scene.group()
    breakable_postgres.kill()
    scene.send(50)
    eventually(lambda: ready(service)[0] == 503)
    assert ready(service)[1]["reason"]
    assert scene.group() == before
    breakable_postgres.start()
    breakable_postgres.wait_ready()
    scene.all_landed_once()
    eventually(lambda: ready(service)[0] == 200)
    assert service.child.exit_code is None

    ground.kafka.stop()
    try:
        eventually(lambda: ready(service)[0] == 503)
        eventually(lambda: b"Unable connect" in service.log.read_bytes())
        os.kill(service.pid, signal.SIGTERM)
        assert exit_code(service) == 0
    finally:
        ground.kafka.start()
        ground.kafka.wait_ready()


def test_a_writer_that_starts_before_postgres_waits_for_it_and_stops_without_it(
    breakable_postgres: Postgres, on_breakable_postgres: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene = on_breakable_postgres
    breakable_postgres.stop()
    scene.send(20)
    writer: Inline = scene.writer(wait=False)
    eventually(lambda: DATABASE_UNAVAILABLE.code in {getattr(r, "code", "") for r in caplog.records})
    breakable_postgres.start()
    breakable_postgres.wait_ready()
    scene.all_landed_once()
    breakable_postgres.stop()
    eventually(lambda: not writer.job._status.ready()[0])
    writer.stop()
    assert writer.exit == 0


def test_kafka_restarts_under_the_writer(ground: Ground, inline: Scene) -> None:
    inline.send(50)
    writer: Inline = inline.writer()
    inline.all_landed_once()
    ground.kafka.kill()
    ground.kafka.start()
    ground.kafka.wait_ready()
    eventually(lambda: _accepted(inline))
    inline.all_landed_once()
    eventually(lambda: writer.job._status.ready()[0])
    assert writer.exit is None


def _accepted(scene: Scene) -> bool:
    try:
        scene.send(50)
    except AssertionError:  # the gateway answers 503 until it has its connections again
        return False
    return True
