"""A dead-letter ingester for one test, with its parked events and its stored events."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from threading import Thread
from typing import Final

import orjson
from confluent_kafka import Producer

from services.admin.dead_letters.ingester import DeadLetterIngester
from shared import wire
from stack.kafka import Kafka
from tests.fixtures.writer import rows

TOPIC_ID: Final = "9f0c1c0e-6f1d-4a0b-9d0a-0f6a0e3f8a11"
KEPT: Final = 'SELECT "offset" FROM onramp_admin.events ORDER BY id'


@contextmanager
def following(ingester: DeadLetterIngester) -> Iterator[DeadLetterIngester]:
    """Run the ingester until the block's end."""
    thread = Thread(target=lambda: asyncio.run(ingester.run()), daemon=True)
    thread.start()
    try:
        yield ingester
    finally:
        ingester.stop()
        thread.join(30)


def park(kafka: Kafka, *offsets: int, value: bytes = b"{}") -> None:
    """Put records of parked events on the topic, as the writer does."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for offset in offsets:
        place = {"topic": "t", "topic_id": TOPIC_ID, "partition": 0, "offset": offset}
        told = place | {"code": "data_rejected", "step": "persist", "destination": "onramp.s.t"}
        headers = [("onramp-error", orjson.dumps(told))]
        producer.produce(wire.USER_ERRORS, key=b"k", value=value, headers=headers)
    assert producer.flush(30) == 0


def kept(dsn: str) -> list[int]:
    if rows(dsn, "SELECT to_regclass('onramp_admin.events')") == [(None,)]:
        return []  # the ingester has not made its tables yet
    return list(chain.from_iterable(rows(dsn, KEPT)))
