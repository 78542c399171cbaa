"""The driver's Kafka, where there is none."""

import asyncio
import gc
import warnings

import pytest
from aiokafka.errors import KafkaError

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
