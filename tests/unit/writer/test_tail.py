"""How large a batch may be that the driver reads: by all that its records bring, not their values."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from services.writer.kafka.reader import BatchReader
from services.writer.model.offsets import Partition, Range
from tests.fixtures.writer import CONTEXT

PARTITION = Partition("events.e", 0)
_LARGE = b"x" * 900_000


class Consumer:
    """As much of a consumer as a reader asks for: a record at a time, `count` of them."""

    def __init__(self, count: int, **record: Any) -> None:
        self.count, self.read, self.record = count, 0, record

    def seek(self, _: TopicPartition, at: int) -> None:
        self.read = at

    def resume(self, *_: TopicPartition) -> None:
        pass

    pause = resume

    async def getmany(self, p: TopicPartition, **_: Any) -> dict[TopicPartition, list[Any]]:
        self.read += 1
        known = {"offset": self.read - 1, "timestamp": 0, "key": b"k", "value": b"{}", "headers": CONTEXT}
        return {p: [SimpleNamespace(**known | self.record)]}

    async def position(self, _: TopicPartition) -> int:
        return self.read


def _rows(consumer: Consumer) -> int | None:
    tail = BatchReader.__new__(BatchReader)  # without its Kafka
    tail._consumer, tail._timeouts = consumer, 0
    found = asyncio.run(tail.read([Range("", PARTITION, 0, consumer.count)]))
    return None if found is None else int(found.num_rows)


def test_small_records_are_read() -> None:
    assert _rows(Consumer(20)) == 20
    assert _rows(Consumer(3, value=None, key=None, headers=[*CONTEXT, ("note", None)])) == 3


@pytest.mark.parametrize(
    "record", [{"value": _LARGE}, {"key": _LARGE}, {"headers": [*CONTEXT, ("note", _LARGE)]}]
)
def test_records_that_are_large_in_any_of_their_parts_are_left_to_spark(record: dict[str, Any]) -> None:
    consumer = Consumer(5_000, **record)
    assert _rows(consumer) is None
    assert consumer.read == 5, "the first beyond 4 MB"
