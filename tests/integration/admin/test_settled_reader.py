"""The shared reader of `onramp.settled`: requests read each entry once, also after a read that was cut."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping

import pytest

from services.admin.statements.period import Statements
from services.admin.waiting_api.halts import Halts
from services.ops.findings import Source
from services.ops.journey.finder import Finder
from services.ops.kafka_logs import KafkaLogs, LogRecord
from services.ops.settled.reader import SettledReader
from services.ops.settled.uncounted import TotalsHistory
from shared import wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database, Templates
from tests.fixtures.writer import event
from tests.integration.admin.conftest import Stage, database_beside, topic_id_of

SETTLED = Source(wire.SETTLED, 0)


@pytest.fixture
def stage(own_topics: HasBootstrap, event_names: Iterator[str], migrated: Database) -> Stage:
    name = next(event_names)
    topic_id = topic_id_of(own_topics.bootstrap, wire.topic_of(name))
    return Stage(own_topics.bootstrap, migrated.dsn, name, topic_id, has_topic=True).prepare()


@pytest.fixture
def control(templates: Templates) -> Iterator[str]:
    with database_beside(templates.server, templates.control) as dsn:
        yield dsn


@pytest.fixture
def read_offsets(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """The offsets of the topic that any client has read, and how often."""
    offsets = Counter[int]()
    read = KafkaLogs.read

    async def counted(self: KafkaLogs, spans: Mapping[Source, tuple[int, int]]) -> AsyncGenerator[LogRecord]:
        async for record in read(self, spans):
            if record.source == SETTLED:
                offsets[record.offset] += 1
            yield record

    monkeypatch.setattr(KafkaLogs, "read", counted)
    return offsets


def test_requests_read_each_entry_once(stage: Stage, control: str, read_offsets: Counter[int]) -> None:
    brokers, databases, settled = Brokers(stage.bootstrap), {"onramp": stage.dsn}, SettledReader()
    statements = Statements(brokers, control, databases, settled)
    halts = Halts(control, databases, brokers, settled)
    finder = Finder(brokers, databases, "", settled=settled)
    for number in range(2):
        stage.settle(event(f"e-{number}", stage.name), event(f"f-{number}", stage.name), wanted=False)
        found = asyncio.run(statements.of(None, None, lambda topic: topic == stage.partition.topic))
        assert [line.filtered for line in found.lines] == [2 * number + 2]
        assert halts.partitions() == []
        assert asyncio.run(finder.find(f"{stage.partition.topic}/0/0")).is_known
    assert read_offsets
    assert set(read_offsets.values()) == {1}


def test_a_read_that_ended_early_is_continued(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, read_offsets: Counter[int]
) -> None:
    stage.settle(event("e", stage.name), wanted=False)
    read, settled = KafkaLogs.read, SettledReader()

    async def cut(self: KafkaLogs, spans: Mapping[Source, tuple[int, int]]) -> AsyncGenerator[LogRecord]:
        async for record in read(self, spans):
            yield record
            raise InfrastructureError(KAFKA_UNAVAILABLE, "cut")

    async def refresh() -> None:
        async with KafkaLogs(Brokers(stage.bootstrap)) as logs:
            await settled.refresh(logs)

    with monkeypatch.context() as patched:
        patched.setattr(KafkaLogs, "read", cut)
        with pytest.raises(InfrastructureError, match="cut"):
            asyncio.run(refresh())
    asyncio.run(refresh())
    assert set(read_offsets.values()) == {1}
    assert settled.totals_at(stage.topic_id, 0, 1) == (1, 1, 0, 0, 0)


def test_the_history_of_a_partition_is_bounded() -> None:
    history = TotalsHistory()
    for offset in range(1, 1001):
        history.apply(b"totals/id/0/1", f"[{offset},{offset},0,0,0]".encode())
    assert history.at("id", 0, 1000) == (1000, 1000, 0, 0, 0)
    assert history.at("id", 0, 901) == (901, 901, 0, 0, 0)
    assert history.at("id", 0, 900) is None
