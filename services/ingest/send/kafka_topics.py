"""Creates topics before their first use, with explicit settings; concurrent requests share a round.

The broker's auto-creation would give a topic the broker's defaults (one partition, one
replica), and a metadata request triggers it. So creation always comes first;
"already exists" is success only after the settings that a 202 relies on were checked. They are reloaded
periodically for all topics in use: an operator may change them, or delete a topic.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaError,
    NoError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from services.ingest.sink import Health
from shared.errors import KAFKA_UNREACHABLE, TOPIC_MISSING, TOPIC_UNSAFE, InfrastructureError
from shared.settings import KafkaSettings
from shared.topics import TopicSpec

logger = logging.getLogger(__name__)

_TIMEOUT_SECONDS: Final = 5.0
_HEALTH_SECONDS: Final = 2.0
#: Concurrent rounds: a slow topic delays only those of its round.
_MAX_ROUNDS: Final = 4
_POLL_SECONDS: Final = 0.02
#: Maximum time until a changed setting is known, and a deleted topic is recreated.
_REREAD_SECONDS: Final = 30.0
#: Topics in one request.
_AT_A_TIME: Final = 100
_MIN_ISR: Final = "min.insync.replicas"
#: Kafka's defaults, used for a topic whose settings may not be read.
_KAFKA_DEFAULTS: Final = {"max.message.bytes": "1048588", "cleanup.policy": "delete"}
#: Returns the registry's specification of a new topic.
SpecOf = Callable[[str], TopicSpec]


@dataclass(frozen=True, slots=True)
class TopicState:
    """The settings of an existing topic that the gateway needs."""

    max_message_bytes: int


class TopicManager:
    """Ensures that topics exist with safe settings, and caches those that do."""

    def __init__(self, settings: KafkaSettings, spec_of: SpecOf) -> None:
        self._settings = settings
        self._spec_of = spec_of
        self._known: dict[str, TopicState] = {}
        self._requested: dict[str, asyncio.Future[TopicState]] = {}
        self._ensuring: dict[str, asyncio.Future[TopicState]] = {}
        self._rounds: set[asyncio.Task[None]] = set()
        self._rereading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start rereading the settings of topics in use periodically."""
        self._rereading = asyncio.create_task(self._reread_always(), name="topic-settings")

    def known(self, topic: str) -> TopicState | None:
        """Return the topic's cached state; None if it was not ensured before."""
        return self._known.get(topic)

    def forget(self, topic: str) -> None:
        """Drop the topic's cached state, so that it is ensured again before its next use."""
        self._known.pop(topic, None)

    async def ensure(self, topic: str) -> TopicState:
        """Create or check the topic unless that was done; concurrent requests share the next round.

        Raises:
            InfrastructureError: KAFKA_UNREACHABLE; or the topic is missing or has unsafe settings.
        """
        known = self._known.get(topic)
        if known is not None:
            return known
        future = self._ensuring.get(topic)
        if future is None:
            future = self._request(topic)
        return await asyncio.shield(future)

    def _request(self, topic: str) -> "asyncio.Future[TopicState]":
        future = self._requested.get(topic)
        if future is None:
            future = self._requested[topic] = asyncio.get_running_loop().create_future()
            future.add_done_callback(_retrieve)
        if len(self._rounds) < _MAX_ROUNDS:
            # The round begins after the current requests and includes all their topics.
            rounds = asyncio.create_task(self._ensure_requested(), name="topics")
            self._rounds.add(rounds)
            rounds.add_done_callback(self._rounds.discard)
        return future

    async def health(self) -> Health:
        """Return the cluster's number of brokers, or that it is unreachable, within two seconds."""
        replicas = self._settings.min_insync
        try:
            async with asyncio.timeout(_HEALTH_SECONDS), self._admin() as admin:
                cluster = await admin.describe_cluster()
        except (KafkaError, OSError, TimeoutError):
            return Health(reachable=False, brokers=0, min_insync_replicas=replicas)
        return Health(reachable=True, brokers=len(cluster["brokers"]), min_insync_replicas=replicas)

    async def stop(self) -> None:
        """Cancel running tasks."""
        tasks = [*self._rounds, *([self._rereading] if self._rereading else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for future in [*self._requested.values(), *self._ensuring.values()]:
            future.cancel()

    async def _reread_always(self) -> None:
        while True:
            await asyncio.sleep(_REREAD_SECONDS)
            try:
                await self._reread()
            except (KafkaError, OSError, TimeoutError) as e:
                logger.info("rereading topic settings failed", extra={"reason": type(e).__name__})

    async def _reread(self) -> None:
        """Reload the cached settings; a deleted or unsafe topic is ensured at its next use."""
        topics = [*self._known]
        if not topics:
            return
        async with self._admin() as admin:
            for first in range(0, len(topics), _AT_A_TIME):
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    resources = [_question(topic) for topic in topics[first : first + _AT_A_TIME]]
                    (response,) = await admin.describe_configs(resources)
                for resource in response.resources:
                    self._remember(resource)

    def _remember(self, resource: Any) -> None:
        topic, error, config = _answer(resource)
        if topic not in self._known or error is TopicAuthorizationFailedError:
            return
        if error is NoError and _unsafe_reason(topic, config, self._settings.min_insync) is None:
            self._known[topic] = TopicState(int(config["max.message.bytes"]))
        else:
            self.forget(topic)

    async def _ensure_requested(self) -> None:
        """Ensure requested topics, a round at a time, until none is left."""
        while self._requested:
            topics = [*islice(self._requested, _AT_A_TIME)]
            futures = {topic: self._requested.pop(topic) for topic in topics}
            self._ensuring |= futures
            reason = "no answer"
            try:
                await self._ensure_all(topics)
            except (KafkaError, OSError, TimeoutError) as e:
                reason = type(e).__name__
            finally:
                for topic in topics:  # results of the round so far remain valid
                    self._fail(topic, _unreachable(reason))
                    self._ensuring.pop(topic, None)

    async def _ensure_all(self, topics: list[str]) -> None:
        async with asyncio.timeout(_TIMEOUT_SECONDS), self._admin() as admin:
            if self._settings.create_topics:
                there = await self._create(admin, topics)
            else:
                there = await self._existing(admin, topics)
            await self._check(admin, there)

    def _fail(self, topic: str, error: InfrastructureError) -> None:
        future = self._ensuring[topic]
        if not future.done():
            future.set_exception(error)

    async def _create(self, admin: AIOKafkaAdminClient, topics: list[str]) -> list[str]:
        """Create topics and return those that exist then; retry a refused request topic by topic.

        Kafka refuses a whole request if a part of it is too large, so a topic with 10,000 partitions would
        block other topics.
        """
        specs = {topic: self._spec(topic) for topic in topics}
        response = await admin.create_topics([*specs.values()])
        there = []
        for topic, code in (answer[:2] for answer in response.topic_errors):
            error = for_code(code)
            if error is NoError:
                created = {"topic": topic, "partitions": specs[topic].num_partitions}
                logger.info("topic created", extra=created)
            if error is NoError or error is TopicAlreadyExistsError:
                there.append(topic)
            elif len(topics) > 1:
                there += await self._create(admin, [topic])
            else:
                self._fail(topic, _unreachable(error.__name__))
        return there

    def _spec(self, topic: str) -> NewTopic:
        spec = self._spec_of(topic)
        return NewTopic(
            spec.name,
            num_partitions=spec.partitions or self._settings.partitions,
            replication_factor=self._settings.replication,
            topic_configs={_MIN_ISR: str(self._settings.min_insync), **spec.config},
        )

    async def _existing(self, admin: AIOKafkaAdminClient, topics: list[str]) -> list[str]:
        there = []
        for description in await admin.describe_topics(topics):
            topic, error = description["topic"], for_code(description["error_code"])
            if error is NoError:
                there.append(topic)
            elif error is UnknownTopicOrPartitionError:
                self._fail(topic, InfrastructureError(TOPIC_MISSING, f"there is no topic {topic}"))
            else:
                self._fail(topic, _unreachable(error.__name__))
        return there

    async def _check(self, admin: AIOKafkaAdminClient, topics: list[str]) -> None:
        """Read the topics' settings; wait until the round's timeout for topics unknown to brokers."""
        while topics:
            resources = [_question(topic) for topic in topics]
            (response,) = await admin.describe_configs(resources)
            answers = [_answer(resource) for resource in response.resources]
            topics = [topic for topic, error, _ in answers if error is UnknownTopicOrPartitionError]
            for topic, error, config in answers:
                if error is not UnknownTopicOrPartitionError:
                    self._decide(topic, error, config)
            if topics:
                # Created, but this broker does not know them yet.
                await asyncio.sleep(_POLL_SECONDS)

    def _decide(self, topic: str, error: Any, config: dict[str, str]) -> None:
        if error is TopicAuthorizationFailedError and not self._settings.create_topics:
            promised = self._settings.min_insync
            logger.warning(
                "a topic's settings cannot be checked: DESCRIBE_CONFIGS is missing",
                extra={"topic": topic, "promised": promised},
            )
            config = {**_KAFKA_DEFAULTS, _MIN_ISR: str(promised)}
        elif error is not NoError:
            self._fail(topic, _unreachable(error.__name__))
            return
        detail = _unsafe_reason(topic, config, self._settings.min_insync)
        if detail is not None:
            logger.error("topic is unsafe", extra={"topic": topic, "reason": detail})
            self._fail(topic, InfrastructureError(TOPIC_UNSAFE, detail))
            return
        self._known[topic] = state = TopicState(int(config["max.message.bytes"]))
        if not self._ensuring[topic].done():
            self._ensuring[topic].set_result(state)

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        # A client per use: uses are rare, and a new client has no dead broker in its metadata.
        admin = AIOKafkaAdminClient(
            **self._settings.brokers.aiokafka(),
            request_timeout_ms=int(_TIMEOUT_SECONDS * 1000),
            client_id="onramp-ingest-admin",
        )
        try:
            await admin.start()
            yield admin
        finally:
            await admin.close()


def _question(topic: str) -> ConfigResource:
    """Return the DescribeConfigs resource of the needed settings: all forty are slow to parse."""
    return ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys([*_KAFKA_DEFAULTS, _MIN_ISR]))


def _answer(resource: Any) -> tuple[str, Any, dict[str, str]]:
    """Return the topic, aiokafka's error and the settings of one resource of a DescribeConfigs response."""
    return resource[3], for_code(resource[0]), {entry[0]: entry[1] for entry in resource[4]}


def _unsafe_reason(topic: str, config: Mapping[str, str], min_insync: int) -> str | None:
    """Return why the topic may lose accepted events; None if it is safe."""
    if int(config[_MIN_ISR]) < min_insync:
        return f"{_MIN_ISR} of {topic} is {config[_MIN_ISR]}, at least {min_insync} is required"
    if "compact" in config["cleanup.policy"]:
        return f"{topic} is compacted: events with equal keys would be removed"
    return None


def _unreachable(reason: str) -> InfrastructureError:
    return InfrastructureError(KAFKA_UNREACHABLE, f"the topic could not be ensured: {reason}")


def _retrieve(future: "asyncio.Future[TopicState]") -> None:
    """Retrieve the outcome, or asyncio would warn: its requests may have ended."""
    if not future.cancelled():
        future.exception()
