"""The driver's Kafka, where there is none."""

import asyncio
import gc
import warnings

import pytest
from aiokafka.errors import GroupCoordinatorNotAvailableError, KafkaError, NodeNotReadyError

from services.writer.positions import Positions
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


class _NoCoordinator:
    """An admin client of a Kafka that moves a group from one broker to another."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def list_consumer_group_offsets(self, _: str) -> dict[object, object]:
        raise self._error


@pytest.mark.parametrize("error", [GroupCoordinatorNotAvailableError(), NodeNotReadyError(), TimeoutError()])
def test_while_the_groups_coordinator_is_away_its_offsets_cannot_be_told(error: Exception) -> None:
    positions = Positions.__new__(Positions)
    positions._admin = _NoCoordinator(error)
    assert asyncio.run(positions.group_offsets_now()) is None
    with pytest.raises(type(error)):
        asyncio.run(positions.group_offsets())
