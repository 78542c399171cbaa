"""The driver's Kafka, where there is none."""

import asyncio
import gc
import re
import warnings

import pytest
from aiokafka.errors import KafkaError, NodeNotReadyError

from services.writer.positions import Positions
from services.writer.ranges import Partition
from shared import wire
from shared.settings import KafkaSettings


async def _read_of_nobody() -> None:
    positions = Positions(KafkaSettings(bootstrap="127.0.0.1:1"), ".*")
    try:
        with pytest.raises(KafkaError):
            async for _ in positions.log(wire.SETTLED):
                pass
    finally:
        await positions.stop()


def test_a_log_that_cannot_be_read_leaves_no_client_behind() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        asyncio.run(_read_of_nobody())
        gc.collect()
    assert [str(w.message) for w in said if w.category is ResourceWarning] == []


class _OneIsGone:
    """An admin client that asks a broker that is gone, so many times, before one that is there."""

    def __init__(self, times: int) -> None:
        self.left = times

    async def describe_topics(self, _: object) -> list[dict[str, object]]:
        self.left -= 1
        if self.left >= 0:
            raise NodeNotReadyError
        return [{"topic": "events.x", "is_internal": False, "partitions": [{"partition": 0}]}]


@pytest.mark.parametrize("times", [0, 2])
def test_a_broker_that_is_gone_is_not_all_of_kafka(times: int) -> None:
    positions = Positions.__new__(Positions)
    positions._admin, positions._pattern = _OneIsGone(times), re.compile("events.*")
    assert asyncio.run(positions.partitions(set())) == {Partition("events.x", 0)}


def test_while_all_of_kafka_is_gone_it_is_said() -> None:
    positions = Positions.__new__(Positions)
    positions._admin, positions._pattern = _OneIsGone(1000), re.compile("events.*")
    with pytest.raises(NodeNotReadyError):
        asyncio.run(positions.partitions(set()))
