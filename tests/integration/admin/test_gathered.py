"""Beside a writer in full flow: what is parked within a moment is kept in one transaction."""

import asyncio
from threading import Event

import pytest

from services.admin.keep.keeper import GATHER_SECONDS, Keeper
from shared import wire
from shared.kafka_security import Brokers
from stack.kafka import Kafka
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import eventually, make_topics, rows
from tests.integration.admin.following import following, kept, park


class Gathering(Keeper):
    """It gathers until it is told to go on."""

    def __init__(self, brokers: Brokers, dsn: str) -> None:
        super().__init__(brokers, dsn)
        self.gathers, self.goes_on = Event(), Event()

    async def pause(self, seconds: float) -> None:
        if seconds != GATHER_SECONDS:
            await super().pause(seconds)
            return
        self.gathers.set()
        await asyncio.to_thread(self.goes_on.wait, 60)


def test_the_few_events_of_a_moment_are_kept_at_once(own_kafka: Kafka, database: Database) -> None:
    make_topics(own_kafka.bootstrap, wire.USER_ERRORS)
    keeper = Gathering(Brokers(own_kafka.bootstrap), database.dsn)
    park(own_kafka, 0)
    with following(keeper):
        assert keeper.gathers.wait(60)
        assert kept(database.dsn) == [0]  # the first one is there at once
        for offset in range(1, 4):
            park(own_kafka, offset)
        assert kept(database.dsn) == [0]
        keeper.goes_on.set()
        eventually(lambda: kept(database.dsn) == [0, 1, 2, 3])
    of = 'SELECT count(DISTINCT xmin::text) FROM onramp_admin.parked WHERE "offset" > 0'
    assert rows(database.dsn, of) == [(1,)]


@pytest.mark.parametrize(("count", "size"), [(1_000, 10), (4, 100_000)])
def test_after_many_or_large_ones_nobody_waits(
    own_kafka: Kafka, database: Database, count: int, size: int
) -> None:
    make_topics(own_kafka.bootstrap, wire.USER_ERRORS)
    park(own_kafka, *range(count), value=b"x" * size)
    keeper = Gathering(Brokers(own_kafka.bootstrap), database.dsn)
    with following(keeper):
        eventually(lambda: len(kept(database.dsn)) == count)
        park(own_kafka, count)
        eventually(lambda: len(kept(database.dsn)) == count + 1)
        assert keeper.gathers.wait(60)  # after the one
        keeper.goes_on.set()
