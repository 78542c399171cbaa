"""The topics of changes: their settings, their ends, and the signals that request re-snapshots.

Owns aiokafka for the agent. Each request opens a connection of its own, because requests are rare.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Final, TypeVar
from uuid import uuid4

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from services.cdc.agent import names
from services.cdc.agent.connector import TopicSettings, literal
from services.cdc.change_detection.topic_generation_sql import End
from shared.kafka_group_offsets import GroupOffsetsClient
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

_SECONDS: Final = 20.0
_REQUEST_MS: Final = 5_000
#: The next poll reads the messages that remain after this time.
_MAX_READING_SECONDS: Final = 5.0
#: Kafka's code for the origin of a setting: it was set on the topic.
_OF_TOPIC: Final = 1
_ENFORCED: Final = ("cleanup.policy", "retention.ms", "retention.bytes")

T = TypeVar("T")


class TopicsError(Exception):
    """A request to Kafka failed."""


class ChangeTopics:
    """The topics of sources' changes.  Every method raises `TopicsError`."""

    def __init__(self, brokers: Brokers, settings: TopicSettings) -> None:
        self._brokers = brokers
        self._settings = settings

    def enforce_settings(self, source: str) -> list[str]:
        """Correct settings that would lose changes; return why others are wrong, with a remedy."""
        return _run(self._enforce_settings(source))

    def ends(self, source: str, tables: Iterable[tuple[str, str]]) -> dict[tuple[str, str], End]:
        """Return the end of each table's topic."""
        topics = {table: names.topic(source, *table) for table in tables}
        ends = _run(self._ends_of_topics(topics.values())) if topics else {}
        return {table: ends.get(topic, End()) for table, topic in topics.items()}

    def make_signals(self, source: str) -> None:
        """Create the topic of signals: a connector does not start without it."""
        _run(self._make_signals(source))

    def messages_end(self, source: str) -> int:
        """Return the next offset of the topic of a source's logical messages."""
        topic = names.message_topic(source)
        return _run(self._ends([topic])).get(topic, 0)

    def messages(self, source: str, start: int) -> tuple[list[bytes], int]:
        """Return a source's logical messages from offset `start` on, and the offset to continue from."""
        return _run(self._messages(TopicPartition(names.message_topic(source), 0), start))

    def read_again(self, source: str, conditions: Mapping[str, Mapping[str, str] | None]) -> None:
        """Have the connector re-snapshot tables completely before it continues with the log.

        `conditions`: the snapshot's query by table.  Each table has its own signal, so that one
        failure affects no other table.
        """
        _run(self._read_again(source, conditions))

    async def _enforce_settings(self, source: str) -> list[str]:
        async with self._admin() as admin:
            prefix = f"{names.topic_prefix(source)}{names.DELIMITER}"
            topics = {t["topic"]: len(t["partitions"]) for t in await admin.describe_topics()}
            ours = [name for name in topics if name.startswith(prefix)]
            carriers = sorted(name for name in ours if name != names.signal_topic(source))
            trouble = [why async for why in self._set_retention(admin, carriers)]
        return trouble + [
            f"the topic {name} has {topics[name]} partitions and must have one, for the order of changes is "
            "its offset, and Kafka takes no partition back: exclude the table, or remove the source "
            f"(onramp sources remove {source}) and add it by another name"
            for name in sorted(ours)
            if topics[name] != 1
        ]

    async def _set_retention(self, admin: GroupOffsetsClient, topics: list[str]) -> AsyncIterator[str]:
        """Correct the retention of topics, and yield a reason for each that cannot be read or corrected."""
        if not topics:
            return
        wanted = {key: self._settings.config[key] for key in _ENFORCED}
        asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]
        for answer in await admin.describe_configs(asked):
            for code, _, _, name, entries in answer.resources:
                if code:
                    yield _refused(name, "cannot be read", code, "DESCRIBE_CONFIGS", wanted)
                elif not _keeps({entry[0]: entry[1] for entry in entries}, wanted):
                    own = {entry[0]: entry[1] for entry in entries if entry[3] == _OF_TOPIC}
                    log.warning(
                        "correcting the settings of a topic of changes", extra={"topic": name, **wanted}
                    )
                    resource = ConfigResource(ConfigResourceType.TOPIC, name, configs=own | wanted)
                    for done in await admin.alter_configs([resource]):
                        for refused, *_ in done.resources:
                            if refused:
                                yield _refused(name, "cannot be set", refused, "ALTER_CONFIGS", wanted)

    async def _ends(self, topics: Iterable[str]) -> dict[str, int]:
        async with self._consumer() as consumer:
            there = await consumer.topics()
            asked = [TopicPartition(topic, 0) for topic in set(topics) if topic in there]
            if not asked:
                return {}
            # A consumer finds the leaders of unassigned partitions one at a time: too slow for many tables.
            consumer.assign(asked)
            ends = await consumer.end_offsets(asked)
            return {partition.topic: int(end) for partition, end in ends.items()}

    async def _ends_of_topics(self, topics: Iterable[str]) -> dict[str, End]:
        asked = set(topics)
        async with self._admin() as admin:
            before = await admin.topic_ids()
            ends = await self._ends(asked)
            ids = await admin.topic_ids()
        if any(before.get(topic) != ids.get(topic) for topic in asked):
            raise TopicsError("a topic of changes was created or deleted just now; retrying at the next poll")
        return {topic: End(end, ids[topic]) for topic, end in ends.items()}

    async def _messages(self, partition: TopicPartition, start: int) -> tuple[list[bytes], int]:
        found: list[bytes] = []
        async with self._consumer() as consumer:
            if partition.topic not in await consumer.topics():
                return found, start
            consumer.assign([partition])
            end = (await consumer.end_offsets([partition]))[partition]
            begin = (await consumer.beginning_offsets([partition]))[partition]
            at = max(start, begin)
            consumer.seek(partition, at)
            until = monotonic() + _MAX_READING_SECONDS
            while at < end and monotonic() < until:
                records = (await consumer.getmany(partition, timeout_ms=_REQUEST_MS)).get(partition, [])
                found.extend(record.value for record in records)
                at = await consumer.position(partition)
        return found, at

    @asynccontextmanager
    async def _consumer(self) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(**self._brokers.aiokafka(), request_timeout_ms=_REQUEST_MS)
        try:
            await consumer.start()
            yield consumer
        finally:
            await consumer.stop()

    async def _make_signals(self, source: str) -> None:
        async with self._admin() as admin:
            new = NewTopic(names.signal_topic(source), 1, self._settings.replication)
            for _, code, message in (await admin.create_topics([new])).topic_errors:
                if code not in (0, TopicAlreadyExistsError.errno):
                    raise TopicsError(
                        f"the topic {names.signal_topic(source)} could not be created: {message}"
                    )

    async def _read_again(self, source: str, conditions: Mapping[str, Mapping[str, str] | None]) -> None:
        producer = AIOKafkaProducer(**self._brokers.aiokafka(), request_timeout_ms=_REQUEST_MS, acks="all")
        try:
            await producer.start()
            key = names.topic_prefix(source).encode()
            for name, condition in conditions.items():
                data = {
                    "data-collections": [literal(name)],
                    "type": "BLOCKING",
                    "additional-conditions": [condition] if condition else [],
                }
                signal = {"id": str(uuid4()), "type": "execute-snapshot", "data": data}
                await producer.send_and_wait(names.signal_topic(source), orjson.dumps(signal), key=key)
        finally:
            await producer.stop()

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[GroupOffsetsClient]:
        admin = GroupOffsetsClient(**self._brokers.aiokafka(), request_timeout_ms=_REQUEST_MS)
        try:
            await admin.start()
            yield admin
        finally:
            await admin.close()


def _keeps(is_: dict[str, Any], wanted: dict[str, str]) -> bool:
    """Return whether a topic retains its records long enough; longer is acceptable."""
    kept, must = int(is_.get("retention.ms") or 0), int(wanted["retention.ms"])
    return (
        is_.get("cleanup.policy") == wanted["cleanup.policy"]
        and is_.get("retention.bytes") == wanted["retention.bytes"]
        and (kept == -1 or 0 <= must <= kept)
    )


def _refused(topic: str, what: str, code: int, right: str, wanted: dict[str, str]) -> str:
    settings = ", ".join(f"{key}={value}" for key, value in wanted.items())
    return (
        f"the retention of the topic {topic} {what} ({for_code(code).__name__}), and changes that it "
        f"drops before they are read are lost: let the agent's user {right}, or have {settings} set there"
    )


def _run(work: Coroutine[Any, Any, T]) -> T:
    async def timed() -> T:
        async with asyncio.timeout(_SECONDS):
            return await work

    try:
        return asyncio.run(timed())
    except (KafkaError, OSError, TimeoutError) as error:
        raise TopicsError(f"Kafka request failed: {type(error).__name__}") from None
