"""Halted partitions, for a person: why, since when, and the word that lets one go on.

The writer says them on `onramp.settled` and hears the answer there.  Owns aiokafka's producer for
the admin service: the word is all that it writes.
"""

import getpass
from typing import Final, NamedTuple

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from services.admin.kafka_logs import KafkaLogs, no_leader
from shared import wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers
from shared.unreadable import UNREADABLE

#: Go on with what Kafka has.
ACCEPT: Final = "accept"
_HALT: Final = "halt/"
_WORD: Final = "word/"


class Halt(NamedTuple):
    """Why a partition (topic/number) is halted.  `answer`: a person's word, None while there is none."""

    partition: str
    reason: str
    since: str
    answer: str | None


class _Halt(msgspec.Struct):
    id: str
    reason: str
    since: str
    over: bool = False


class _Word(msgspec.Struct):
    halt: str
    how: str
    by: str


async def halts(brokers: Brokers) -> list[Halt]:
    """The halts that are, by partition.  Raises `InfrastructureError`."""
    found, words = await _read(brokers)
    return [
        Halt(p, halt.reason, halt.since, words[p].how if p in words and words[p].halt == halt.id else None)
        for p, halt in sorted(found.items())
    ]


async def answer(brokers: Brokers, partition: str, how: str) -> bool:
    """Tell the writer what to do about the halt of `partition`; False: there is none.

    Raises `InfrastructureError`.
    """
    found, _ = await _read(brokers)
    if partition not in found:
        return False
    word = _Word(found[partition].id, how, getpass.getuser())
    producer = AIOKafkaProducer(**brokers.aiokafka(), acks="all")
    try:
        await producer.start()
        await producer.send_and_wait(
            wire.SETTLED, key=f"{_WORD}{partition}".encode(), value=msgspec.json.encode(word), partition=0
        )
    except KafkaError as e:
        raise InfrastructureError(
            KAFKA_UNAVAILABLE, f"Kafka at {brokers} did not take the word: {type(e).__name__}"
        ) from None
    finally:
        await producer.stop()
    return True


async def _read(brokers: Brokers) -> tuple[dict[str, _Halt], dict[str, _Word]]:
    found: dict[str, _Halt] = {}
    words: dict[str, _Word] = {}
    async with KafkaLogs(brokers) as logs:
        async for record in logs.whole(wire.SETTLED):
            key = (record.key or b"").decode(errors="replace")
            try:
                if key.startswith(_HALT):
                    found[key.removeprefix(_HALT)] = msgspec.json.decode(record.value or b"", type=_Halt)
                elif key.startswith(_WORD):
                    words[key.removeprefix(_WORD)] = msgspec.json.decode(record.value or b"", type=_Word)
            except UNREADABLE:
                continue  # anybody may write there: it is none of the writer's
        if logs.leaderless:
            raise InfrastructureError(KAFKA_UNAVAILABLE, no_leader(logs.leaderless))
    return {p: halt for p, halt in found.items() if not halt.over}, words
