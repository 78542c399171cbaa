"""Retires a database that is no longer configured, by an entry on `onramp.settled` for the writer."""

import asyncio
import getpass
import time
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from services.ops.kafka_logs import KafkaLogs, no_leader
from shared import wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers
from shared.parse_errors import UNREADABLE

_WORD: Final = "retire"
_DONE: Final = "retired"
_BASELINE: Final = "baseline"
#: Seconds between two reads of the whole topic, while a job waits for an unknown database.
_READ_SECONDS: Final = 10.0


class _Word(msgspec.Struct):
    id: str
    by: str
    reason: str


class _Done(msgspec.Struct):
    id: str
    upto: dict[int, int] | None = None


class Known(NamedTuple):
    """Whether `onramp.settled` has entries of a database, and whether it is retired."""

    has_past: bool
    is_retired: bool


async def known(brokers: Brokers, name: str) -> Known:
    """Return whether a database is known and retired.  Raises `InfrastructureError`."""
    past, retired = await _read(brokers)
    return Known(name in past, name in retired)


async def _read(brokers: Brokers) -> tuple[set[str], set[str]]:
    """Return the databases with entries on `onramp.settled`, and the retired ones."""
    baselines: dict[bytes, set[str]] = {}
    retired: set[str] = set()
    async with KafkaLogs(brokers) as logs:
        async for record in logs.whole(wire.SETTLED):
            key = record.key or b""
            try:
                if key.startswith(f"{_BASELINE}/".encode()):
                    baselines[key] = set(msgspec.json.decode(record.value or b"", type=dict[str, int]))
                elif key.startswith(f"{_DONE}/".encode()):
                    done = msgspec.json.decode(record.value or b"", type=_Done)
                    if done.upto is not None:  # the entries before it are obsolete
                        retired.add(name := key.decode().partition("/")[2])
                        for names in baselines.values():
                            names.discard(name)
            except UNREADABLE:
                continue  # any client may write there: not an entry of the writer
        if logs.leaderless:
            raise InfrastructureError(KAFKA_UNAVAILABLE, no_leader(logs.leaderless))
    past = {name for names in baselines.values() for name in names}
    return past, retired - past


class RetiredDatabases:
    """Returns whether each known database is retired, cached for some seconds; for one thread."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._states: dict[str, bool] = {}
        self._again_at = 0.0

    def __call__(self) -> dict[str, bool]:
        """Return the state by name. Raises `InfrastructureError`."""
        if time.monotonic() >= self._again_at:
            past, retired = asyncio.run(_read(self._brokers))
            self._states = dict.fromkeys(past, False) | dict.fromkeys(retired, True)
            self._again_at = time.monotonic() + _READ_SECONDS
        return self._states


async def retire(brokers: Brokers, name: str, reason: str) -> None:
    """Write the entry that retires a database.  Raises `InfrastructureError`."""
    producer = AIOKafkaProducer(**brokers.aiokafka(), acks="all")
    try:
        await producer.start()
        word = _Word(str(uuid4()), getpass.getuser(), reason)
        await producer.send_and_wait(
            wire.SETTLED, key=f"{_WORD}/{name}".encode(), value=msgspec.json.encode(word), partition=0
        )
    except KafkaError as e:
        raise InfrastructureError(
            KAFKA_UNAVAILABLE, f"Kafka at {brokers} did not accept the entry: {type(e).__name__}"
        ) from None
    finally:
        await producer.stop()
