"""A topic of parked events that somebody has made again is another one, whatever its offsets are."""

import asyncio
import re
from contextlib import AbstractContextManager
from typing import Final

import pytest

from services.admin.audit.kept import Comparison
from services.admin.kafka_logs import KafkaLogs
from services.admin.keep.keeper import Keeper
from services.admin.kept_sql import opened
from shared import wire
from shared.kafka_security import Brokers
from stack.kafka import Kafka
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import delete_topic, eventually, execute, make_topics, rows
from tests.integration.admin.following import following, kept, park

READ_TO: Final = "SELECT next_offset FROM onramp_admin.consumed"


def _keeping(kafka: Kafka, dsn: str) -> AbstractContextManager[Keeper]:
    return following(Keeper(Brokers(kafka.bootstrap), dsn))


@pytest.mark.parametrize("by_a_release_before", [False, True])
def test_a_topic_that_was_recreated_is_kept_from_its_start_though_it_has_outgrown_the_one_before(
    own_kafka: Kafka, database: Database, by_a_release_before: bool
) -> None:
    make_topics(own_kafka.bootstrap, wire.USER_ERRORS)
    park(own_kafka, 0, 1, 2)
    with _keeping(own_kafka, database.dsn):
        eventually(lambda: kept(database.dsn) == [0, 1, 2])
    if by_a_release_before:  # it is trusted that it has read this one, and noted
        execute(database.dsn, "UPDATE onramp_admin.consumed SET topic_id = NULL")
        park(own_kafka, 3)
        with _keeping(own_kafka, database.dsn):
            eventually(lambda: kept(database.dsn) == [0, 1, 2, 3])
    before = kept(database.dsn)
    delete_topic(own_kafka.bootstrap, wire.USER_ERRORS)
    make_topics(own_kafka.bootstrap, wire.USER_ERRORS)
    park(own_kafka, *range(10, 16))
    assert _due(own_kafka, database.dsn) == 0  # none of the new ones has been read
    with _keeping(own_kafka, database.dsn):
        eventually(lambda: kept(database.dsn) == [*before, *range(10, 16)])
        eventually(lambda: rows(database.dsn, READ_TO) == [(6,)])
    assert _due(own_kafka, database.dsn) == 6


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
