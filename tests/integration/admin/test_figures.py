"""Where every accepted event is, of a real gateway, writer, control database and Kafka."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx2
import pytest

from services.admin.dead_letters.ingester import DeadLetterIngester
from services.admin.figures.locations import Locations
from services.admin.figures.settings import FiguresSettings
from services.admin.figures.watch import FiguresWatch
from services.ops.kafka_logs import KafkaLogs
from services.ops.operate.unsettled_offsets import unsettled
from services.ops.settled.reader import SettledReader
from services.writer.observe.status_server import StatusServer
from shared import wire
from shared.kafka_security import Brokers
from stack.kafka import Kafka
from stack.services import Service
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.fix_stack import StartGateway
from tests.fixtures.ingest import JSON, body, envelope, until
from tests.fixtures.inline import Inline
from tests.fixtures.second_database import Other
from tests.fixtures.writer import eventually, produce
from tests.integration.admin.own_ingester import following

NAME = "figured"


@dataclass
class Pipeline:
    """A gateway, a writer and an ingester on a Kafka of their own, and the watch of their figures."""

    kafka: Kafka
    gateway: Service
    database: Other
    watch: FiguresWatch

    def send(self, *events: dict[str, object]) -> None:
        for event in events:
            answer = httpx2.post(
                f"{self.gateway.url}/v1/events", content=body(event), headers=JSON, timeout=30
            )
            assert answer.status_code == 202, answer.text

    async def locations(self) -> Locations:
        await self.watch.read()
        await self.watch.totals.read()
        await self.watch.read()
        return self.watch.reading.locations


@pytest.fixture
def pipeline(own_kafka: Kafka, postgres: HasDsn, start_gateway: StartGateway) -> Iterator[Pipeline]:
    database = Other(postgres.dsn, "figures_of_it")
    database.create()
    gateway = start_gateway(own_kafka.bootstrap)
    env = {"ONRAMP_WRITER_DATABASE": "figures", "ONRAMP_WRITER_METRICS_SECONDS": "0.2"}
    writer = Inline(own_kafka.bootstrap, database.dsn, env).start()
    brokers = Brokers(own_kafka.bootstrap)
    control = Other(postgres.dsn, "figures_control")
    control.create()
    try:
        writer.wait_ready()
        server = StatusServer(writer.job._status, "127.0.0.1", 0).start()
        urls = FiguresSettings(gateway_urls=gateway.url, writer_urls=f"http://127.0.0.1:{server.port}")
        with following(DeadLetterIngester(brokers, control.dsn)):
            watch = FiguresWatch(urls, brokers, control.dsn, {"figures": database.dsn}, SettledReader())
            yield Pipeline(own_kafka, gateway, database, watch)
        server.stop()
    finally:
        writer.stop()
        for each in (database, control):
            each.drop()


def become(pipeline: Pipeline, *steps: Callable[[], object], **expected: int) -> Locations:
    """Read until the locations are as expected, in one event loop, in which clients stay open."""

    async def read() -> Locations:
        for step in steps:
            step()
        found = await pipeline.locations()

        async def are_there() -> bool:
            nonlocal found
            found = await pipeline.locations()
            return {name: getattr(found, name) for name in expected} == expected

        try:
            await until(are_there)
        except TimeoutError:
            pytest.fail(f"{expected} is not {found}")
        finally:
            await pipeline.watch.totals._kafka.close()
        return found

    return asyncio.run(read())


def topic_reading(pipeline: Pipeline) -> tuple[int | None, int | None]:
    """Return events and lag of the topic, read now and not in 15 seconds."""
    pipeline.watch.totals._topics_due = 0.0
    become(pipeline)
    (topic,) = (each for each in pipeline.watch.totals.topics if each.topic == wire.topic_of(NAME))
    return topic.events, topic.lag


def watched_offsets(pipeline: Pipeline) -> dict[str, int]:
    """Return the unsettled offsets that pages render, with known times."""
    reading = asyncio.run(pipeline.watch.totals.last_unsettled())
    assert reading.is_whole
    assert all(topic.oldest_ms and topic.hours for topic in reading.topics)
    return {topic.topic: topic.offsets for topic in reading.topics}


def read_offsets(pipeline: Pipeline) -> dict[str, int]:
    """Return the unsettled offsets as the command line reads them."""

    async def read() -> dict[str, int]:
        async with KafkaLogs(Brokers(pipeline.kafka.bootstrap)) as logs:
            return {topic.topic: topic.offsets for topic in await unsettled(logs)}

    return asyncio.run(read())


def test_every_accepted_event_is_in_a_place_that_was_measured(pipeline: Pipeline) -> None:
    good = [envelope(f"good-{n}", NAME, n=n) for n in range(10)]
    pipeline.send(*good, good[0], *(envelope(f"bad-{n}", NAME, text="\0") for n in range(2)))
    produce(pipeline.kafka.bootstrap, wire.topic_of(NAME), [b"no envelope"])
    produce(pipeline.kafka.bootstrap, wire.topic_of(NAME), [b"of another client"], headers=[("of", b"it")])
    found = become(
        pipeline,
        accepted=15,
        landed=10,
        duplicates=1,
        filtered=1,
        in_flight=0,
        parked=3,
        open=3,
        waiting=0,
        difference=0,
    )
    assert found.open_by_name == {"": 1, NAME: 2}
    reading = pipeline.watch.reading
    assert [part for part in reading.parts if not part.is_up] == []
    (figured,) = (each for each in reading.types if each.name == NAME)
    assert figured.parked == 2
    assert reading.writer_state == "consuming"
    eventually(lambda: topic_reading(pipeline) == (15, 0))

    pipeline.database.close()
    pipeline.send(*(envelope(f"late-{n}", NAME) for n in range(3)))
    found = become(pipeline, accepted=18, landed=10, waiting=0, in_flight=3, difference=0)
    assert [part.name for part in pipeline.watch.reading.down()] == ["database figures"]
    assert watched_offsets(pipeline) == read_offsets(pipeline) == {wire.topic_of(NAME): 3}
    pipeline.database.open()
    become(pipeline, accepted=18, landed=13, waiting=0, in_flight=0, difference=0)
    assert pipeline.watch.reading.down() == ()
