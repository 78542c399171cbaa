"""The ingester and its topic: events parked within a moment are stored at once; a recreated topic is new."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from threading import Event
from typing import Final

import pytest

from services.admin.dead_letters.ingester import GATHER_SECONDS, DeadLetterIngester
from services.ops.audit.parked_store import Comparison
from services.ops.kafka_logs import KafkaLogs
from services.ops.parked_store_sql import opened
from shared import wire
from shared.kafka_security import Brokers
from stack.kafka import Kafka
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import delete_topic, eventually, make_topics, rows
from tests.integration.admin.own_ingester import following, kept, park

READ_TO: Final = "SELECT next_offset FROM onramp_admin.consumed"


@pytest.fixture
def parked_topic(module_kafka: Kafka) -> Iterator[Kafka]:
    """A Kafka whose topic of parked events is new: a test parks there and makes it again as it likes."""
    make_topics(module_kafka.bootstrap, wire.USER_ERRORS)
    yield module_kafka
    delete_topic(module_kafka.bootstrap, wire.USER_ERRORS)


class Gathering(DeadLetterIngester):
    """A topic reader that pauses until it is resumed."""

    def __init__(self, brokers: Brokers, dsn: str) -> None:
        super().__init__(brokers, dsn)
        self.gathers, self.goes_on = Event(), Event()

    async def pause(self, seconds: float) -> None:
        if seconds != GATHER_SECONDS:
            await super().pause(seconds)
            return
        self.gathers.set()
        await asyncio.to_thread(self.goes_on.wait, 60)


def test_the_few_events_of_a_moment_are_kept_at_once(parked_topic: Kafka, database: Database) -> None:
    ingester = Gathering(Brokers(parked_topic.bootstrap), database.dsn)
    park(parked_topic, 0)
    with following(ingester):
        assert ingester.gathers.wait(60)
        assert kept(database.dsn) == [0]  # the first one is there at once
        for offset in range(1, 4):
            park(parked_topic, offset)
        assert kept(database.dsn) == [0]
        ingester.goes_on.set()
        eventually(lambda: kept(database.dsn) == [0, 1, 2, 3])
    of = 'SELECT count(DISTINCT xmin::text) FROM onramp_admin.parked WHERE "offset" > 0'
    assert rows(database.dsn, of) == [(1,)]


@pytest.mark.parametrize(("count", "size"), [(1_000, 10), (4, 100_000)])
def test_event_after_many_or_large_events_is_stored_before_the_ingester_gathers(
    parked_topic: Kafka, database: Database, count: int, size: int
) -> None:
    park(parked_topic, *range(count), value=b"x" * size)
    ingester = Gathering(Brokers(parked_topic.bootstrap), database.dsn)
    with following(ingester):
        eventually(lambda: len(kept(database.dsn)) == count)
        park(parked_topic, count)
        eventually(lambda: len(kept(database.dsn)) == count + 1)
        assert ingester.gathers.wait(60)  # after the one
        ingester.goes_on.set()


def _keeping(kafka: Kafka, dsn: str) -> AbstractContextManager[DeadLetterIngester]:
    return following(DeadLetterIngester(Brokers(kafka.bootstrap), dsn))


def test_a_topic_that_was_recreated_is_kept_from_its_start_though_it_has_outgrown_the_one_before(
    parked_topic: Kafka, database: Database
) -> None:
    park(parked_topic, 0, 1, 2)
    with _keeping(parked_topic, database.dsn):
        eventually(lambda: kept(database.dsn) == [0, 1, 2])
    before = kept(database.dsn)
    delete_topic(parked_topic.bootstrap, wire.USER_ERRORS)
    make_topics(parked_topic.bootstrap, wire.USER_ERRORS)
    park(parked_topic, *range(10, 16))
    assert _due(parked_topic, database.dsn) == 0  # none of the new ones has been read
    with _keeping(parked_topic, database.dsn):
        eventually(lambda: kept(database.dsn) == [*before, *range(10, 16)])
        eventually(lambda: rows(database.dsn, READ_TO) == [(6,)])
    assert _due(parked_topic, database.dsn) == 6


def _due(kafka: Kafka, dsn: str) -> int:
    """Up to where the audit asks for what is on the topic."""

    async def due() -> int:
        async with KafkaLogs(Brokers(kafka.bootstrap)) as logs:
            spans, topic_ids = await logs.spans([wire.USER_ERRORS]), await logs.topic_ids()
        with opened(dsn) as kept:
            assert kept is not None
            comparison = Comparison(kept, re.compile("t"))
            comparison.begin(spans, topic_ids)
            return sum(comparison.consumed.values())

    return asyncio.run(due())
