"""Halted partitions, for an operator: reason, time, and the answer that resumes one.

The writer reports them on `onramp.settled` and reads the answer there.  Owns aiokafka's producer for
the admin service: the answer is all that it writes.
"""

import getpass
from typing import Final, NamedTuple

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from services.ops.kafka_logs import KafkaLogs, no_leader
from shared import wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers
from shared.parse_errors import UNREADABLE

#: Continue with the records that Kafka has.
ACCEPT: Final = "accept"
_HALT: Final = "halt/"
_ANSWER: Final = "word/"


class Halt(NamedTuple):
    """The halt of a partition (topic/number).  `answer`: the operator's decision, or None."""

    partition: str
    reason: str
    since: str
    answer: str | None


class _Halt(msgspec.Struct):
    id: str
    reason: str
    since: str
    over: bool = False


class _Answer(msgspec.Struct):
    halt: str
    how: str
    by: str


async def halts(brokers: Brokers) -> list[Halt]:
    """Return the open halts, by partition.  Raises `InfrastructureError`."""
    open_halts, answers = await _read(brokers)
    return [
        Halt(
            p,
            halt.reason,
            halt.since,
            answers[p].how if p in answers and answers[p].halt == halt.id else None,
        )
        for p, halt in sorted(open_halts.items())
    ]


async def answer(brokers: Brokers, partition: str, how: str, *, by: str = "", of: Halt | None = None) -> bool:
    """Send the writer the answer to the halt of `partition`; return False without a halt.

    With `of`, also return False if another halt is there now.  `by`: the operator, by default the user of
    this process.  Raises `InfrastructureError`.
    """
    open_halts, _ = await _read(brokers)
    halt = open_halts.get(partition)
    if halt is None or (of is not None and (halt.reason, halt.since) != (of.reason, of.since)):
        return False
    decision = _Answer(halt.id, how, by or getpass.getuser())
    producer = AIOKafkaProducer(**brokers.aiokafka(), acks="all")
    try:
        await producer.start()
        await producer.send_and_wait(
            wire.SETTLED,
            key=f"{_ANSWER}{partition}".encode(),
            value=msgspec.json.encode(decision),
            partition=0,
        )
    except KafkaError as e:
        raise InfrastructureError(
            KAFKA_UNAVAILABLE, f"Kafka at {brokers} did not accept the answer: {type(e).__name__}"
        ) from None
    finally:
        await producer.stop()
    return True


async def _read(brokers: Brokers) -> tuple[dict[str, _Halt], dict[str, _Answer]]:
    halts: dict[str, _Halt] = {}
    answers: dict[str, _Answer] = {}
    async with KafkaLogs(brokers) as logs:
        async for record in logs.whole(wire.SETTLED):
            key = (record.key or b"").decode(errors="replace")
            try:
                if key.startswith(_HALT):
                    halts[key.removeprefix(_HALT)] = msgspec.json.decode(record.value or b"", type=_Halt)
                elif key.startswith(_ANSWER):
                    answers[key.removeprefix(_ANSWER)] = msgspec.json.decode(
                        record.value or b"", type=_Answer
                    )
            except UNREADABLE:
                continue  # any client may write there: not an entry of the writer
        if logs.leaderless:
            raise InfrastructureError(KAFKA_UNAVAILABLE, no_leader(logs.leaderless))
    return {p: halt for p, halt in halts.items() if not halt.over}, answers
