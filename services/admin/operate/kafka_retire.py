"""Retires a database that is not configured any more, by a word on `onramp.settled` for the writer."""

import getpass
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from services.admin.kafka_logs import KafkaLogs, no_leader
from shared import wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers
from shared.unreadable import UNREADABLE

_WORD: Final = "retire"
_DONE: Final = "retired"
_BASELINE: Final = "baseline"


class _Word(msgspec.Struct):
    id: str
    by: str
    reason: str


class _Done(msgspec.Struct):
    id: str
    upto: dict[int, int] | None = None


class Known(NamedTuple):
    """What `onramp.settled` says of a database: whether it has a past there, and whether it is retired."""

    has_past: bool
    is_retired: bool


async def known(brokers: Brokers, name: str) -> Known:
    """Return what is known of a database.  Raises `InfrastructureError`."""
    baselines: dict[bytes, bool] = {}
    done: _Done | None = None
    async with KafkaLogs(brokers) as logs:
        async for record in logs.whole(wire.SETTLED):
            key = record.key or b""
            try:
                if key.startswith(f"{_BASELINE}/".encode()):
                    baselines[key] = name in msgspec.json.decode(record.value or b"", type=dict[str, int])
                elif key == f"{_DONE}/{name}".encode():
                    done = msgspec.json.decode(record.value or b"", type=_Done)
                    if done.upto is not None:  # what was before it is over
                        baselines.clear()
            except UNREADABLE:
                continue  # anybody may write there: it is none of the writer's
        if logs.leaderless:
            raise InfrastructureError(KAFKA_UNAVAILABLE, no_leader(logs.leaderless))
    has_past = any(baselines.values())
    return Known(has_past, is_retired=done is not None and done.upto is not None and not has_past)


async def retire(brokers: Brokers, name: str, reason: str) -> None:
    """Tell the writer that a database is retired.  Raises `InfrastructureError`."""
    producer = AIOKafkaProducer(**brokers.aiokafka(), acks="all")
    try:
        await producer.start()
        word = _Word(str(uuid4()), getpass.getuser(), reason)
        await producer.send_and_wait(
            wire.SETTLED, key=f"{_WORD}/{name}".encode(), value=msgspec.json.encode(word), partition=0
        )
    except KafkaError as e:
        raise InfrastructureError(
            KAFKA_UNAVAILABLE, f"Kafka at {brokers} did not take the word: {type(e).__name__}"
        ) from None
    finally:
        await producer.stop()
