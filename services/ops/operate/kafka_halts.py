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


class HaltLog:
    """The open halts and their answers, from the entries of `onramp.settled` in their order."""

    def __init__(self) -> None:
        self._halts: dict[str, _Halt] = {}
        self._answers: dict[str, _Answer] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one entry.  Any client may write to the topic: invalid entries are skipped."""
        name = (key or b"").decode(errors="replace")
        try:
            if name.startswith(_HALT):
                self._halts[name.removeprefix(_HALT)] = msgspec.json.decode(value or b"", type=_Halt)
            elif name.startswith(_ANSWER):
                self._answers[name.removeprefix(_ANSWER)] = msgspec.json.decode(value or b"", type=_Answer)
        except UNREADABLE:
            return

    def copy(self) -> "HaltLog":
        """Return a copy, to which later entries are not applied."""
        other = HaltLog()
        other._halts, other._answers = dict(self._halts), dict(self._answers)
        return other

    def open_halt(self, partition: str) -> _Halt | None:
        """Return the open halt of `partition`, or None without one."""
        halt = self._halts.get(partition)
        return None if halt is None or halt.over else halt

    def halts(self) -> list[Halt]:
        """Return the open halts, by partition."""
        return [
            Halt(p, halt.reason, halt.since, self._answer_to(p, halt))
            for p, halt in sorted(self._halts.items())
            if not halt.over
        ]

    def _answer_to(self, partition: str, halt: _Halt) -> str | None:
        answer = self._answers.get(partition)
        return answer.how if answer and answer.halt == halt.id else None


async def halts(brokers: Brokers) -> list[Halt]:
    """Return the open halts, by partition.  Raises `InfrastructureError`."""
    return (await _read(brokers)).halts()


async def answer(
    brokers: Brokers,
    partition: str,
    how: str,
    *,
    by: str = "",
    of: Halt | None = None,
    log: HaltLog | None = None,
) -> bool:
    """Send the writer the answer to the halt of `partition`; return False without a halt.

    With `of`, also return False if another halt is there now.  `by`: the operator, by default the user of
    this process.  `log`: the halts as of now; without it they are read.  Raises `InfrastructureError`.
    """
    halt = (log or await _read(brokers)).open_halt(partition)
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


async def _read(brokers: Brokers) -> HaltLog:
    log = HaltLog()
    async with KafkaLogs(brokers) as logs:
        async for record in logs.whole(wire.SETTLED):
            log.apply(record.key, record.value)
        if logs.leaderless:
            raise InfrastructureError(KAFKA_UNAVAILABLE, no_leader(logs.leaderless))
    return log
