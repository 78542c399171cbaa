"""The driver's loop on a real Kafka, with lane runs in its own threads instead of Spark's tasks."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from services.transform.app import EXIT_FENCED, EXIT_STOPPED, TransformProcess
from services.transform.driver.kafka_epochs import take_epoch
from services.transform.function.code import TransformCode
from services.transform.function.lookups import LookupTable, table_of
from services.transform.lane import task
from services.transform.lane.order import LaneOrder, LaneReport
from services.transform.lane.spark_task import Shared
from services.transform.settings import TransformSettings
from shared import wire
from shared.kafka_security import Brokers
from shared.registry.memory import MemoryRegistry
from shared.registry.transforms import digest_of_source
from shared.settings import KafkaSettings
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.transforms import Author, InProcess, TransformScene, by_kind
from tests.fixtures.writer import delete_records, eventually, records


class InlineJobs:
    """Runs lanes in the calling thread; a cancelled run ends with its short budget."""

    slots = 16

    def __init__(self, author: Author) -> None:
        self.author = author
        self.orders: list[LaneOrder] = []

    def run(self, order: LaneOrder, _code: TransformCode, _lookups: Mapping[str, Shared]) -> LaneReport:
        self.orders.append(order)
        return asyncio.run(task.run(order, InProcess(self.author)))

    def cancel_transform(self, _: str) -> None:
        """Nothing: the budget is short."""

    def share(self, table: LookupTable) -> Shared:
        return _Value(table)

    def is_alive(self) -> bool:
        return True


class _Value:
    def __init__(self, value: LookupTable) -> None:
        self.value = value


class RunningDriver:
    """A transform service in a thread."""

    def __init__(
        self, scene: TransformScene, author: Author = by_kind, *, tracers: bool = False, **transform: Any
    ) -> None:
        self.scene = scene
        self.jobs = InlineJobs(author)
        self.registry = MemoryRegistry(self.document(**transform))
        self._loop = asyncio.new_event_loop()
        self.exit_code: int | None = None
        settings = TransformSettings(
            http_port=0, poll_ms=20, run_seconds=1.0, short_run_seconds=0.5, tracers=tracers
        )
        kafka = KafkaSettings(bootstrap=scene.bootstrap)

        async def run() -> int:
            self.process = TransformProcess(
                settings, kafka, self.registry, lambda: self.jobs, lambda name, _: table_of(name, {})
            )
            self._started.set()
            return await self.process.run(handle_signals=False)

        def target() -> None:
            self.exit_code = self._loop.run_until_complete(run())
            self._loop.close()

        self._started = threading.Event()
        self._thread = threading.Thread(target=target)
        self._thread.start()
        self._started.wait()

    def document(self, source: str = "", **transform: Any) -> dict[str, Any]:
        name = self.scene.name
        source = source or f"# {name}"
        return {
            "event_types": {
                "source": {"topic": self.scene.source},
                "made": {"topic": self.scene.target},
            },
            "transforms": {
                name: {
                    "from": "source",
                    "to": ["made"],
                    "start": "earliest",
                    "source": source,
                    "digest": digest_of_source(source),
                    **transform,
                }
            },
        }

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.process.status.document())["transforms"]
        entry: dict[str, Any] = found.get(self.scene.name, {})
        return entry

    def stop(self) -> int | None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self.process.stop)
        return self.join()

    def join(self) -> int | None:
        self._thread.join(60)
        return self.exit_code


@pytest.fixture
def scene(kafka: HasBootstrap) -> TransformScene:
    return TransformScene.make(kafka.bootstrap)


@contextmanager
def driver(scene: TransformScene, author: Author = by_kind, **transform: Any) -> Iterator[RunningDriver]:
    running = RunningDriver(scene, author, **transform)
    try:
        yield running
    finally:
        running.stop()


def write_state(scene: TransformScene, **state: Any) -> None:
    """Write a state as the admin service does."""
    producer = Producer({"bootstrap.servers": scene.bootstrap})
    producer.produce(wire.TRANSFORMERS, key=f"state:{scene.name}", value=orjson.dumps(state), partition=1)
    assert producer.flush(30) == 0


def test_events_are_transformed_and_the_service_stops(scene: TransformScene) -> None:
    with driver(scene, lanes=2) as running:
        scene.send([1, 0, None])
        scene.send([1], partition=1)
        eventually(lambda: len(scene.outputs()) == 2)
        eventually(lambda: sum(running.status["lag"].values()) == 0)
        eventually(lambda: running.status["totals"]["emitted"] == 2)
        assert running.status["totals"] | {} == {
            "filtered": 0,
            "dropped": 1,
            "parked": 1,
            "emitted": 2,
            "outputs": 2,
            "deaths": 0,
            "skipped": 0,
        }
        assert running.stop() == EXIT_STOPPED
    assert {order.lane for order in running.jobs.orders} == {0, 1}


def test_a_transform_that_parks_half_of_its_events_is_paused_until_it_is_resumed(
    scene: TransformScene,
) -> None:
    scene.send([None] * 501 + [1] * 499)
    with driver(scene) as running:
        eventually(lambda: running.status.get("state") == "paused")
        assert running.status["reason"] == "501 of the last 1000 events were parked"
        eventually(lambda: not running.status["running_lanes"])
        scene.send([1], first=1000)
        eventually(lambda: sum(running.status["lag"].values()) == 1)
        write_state(scene, state="running", by="someone")
        eventually(lambda: scene.offsets()[0] == 1001)
    assert len(scene.parked()) == 501


def test_a_deploy_applies_to_the_next_run_and_a_change_of_lanes_takes_an_epoch(scene: TransformScene) -> None:
    with driver(scene) as running:
        scene.send([1])
        eventually(lambda: len(scene.outputs()) == 1)
        first = running.jobs.orders[-1]
        running.registry.put(running.document(source="# second", lanes=2))
        eventually(lambda: running.status["version"] != first.digest)
        scene.send([1], partition=1)
        eventually(lambda: len(scene.outputs()) == 2)
        eventually(lambda: running.jobs.orders[-1].lanes == 2)
    last = running.jobs.orders[-1]
    assert (first.lanes, last.lanes) == (1, 2)
    assert last.epoch > first.epoch


def test_a_driver_with_an_older_epoch_ends(scene: TransformScene) -> None:
    with driver(scene) as running:
        eventually(lambda: running.process.status.is_ready)
        asyncio.run(take_epoch(Brokers(scene.bootstrap), {scene.name: 1}))
        assert running.join() == EXIT_FENCED


def test_a_position_outside_of_the_log_pauses_until_an_operator_accepts(scene: TransformScene) -> None:
    scene.send([1, 1])
    scene.run()
    scene.send([1, 1, 1], first=2)
    delete_records(scene.bootstrap, scene.source, 0, 4)
    with driver(scene) as running:
        eventually(lambda: running.status.get("state") == "paused")
        assert "events may have been lost" in running.status["reason"]
        write_state(scene, state="running", accept=True)
        eventually(lambda: scene.offsets()[0] == 5)
        eventually(lambda: b'"accept":false' in _states(scene)[-1])


def _states(scene: TransformScene) -> list[bytes]:
    key = f"state:{scene.name}".encode()
    return [each.value or b"" for each in records(scene.bootstrap, wire.TRANSFORMERS) if each.key == key]
