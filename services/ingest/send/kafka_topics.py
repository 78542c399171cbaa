"""Topics are created before their first use, with explicit settings, each by one task at a time.

The broker's auto-creation would give a topic the broker's defaults (one partition, one
replica), and a metadata request is enough to trigger it.  So creation comes first, always;
"already exists" is success only once the settings that a 202 stands on were checked.  They are read
again now and then, of all topics in use at once: an operator may change them, or delete a topic.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
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
from shared.topics import event_topic

logger = logging.getLogger(__name__)

_TIMEOUT_SECONDS: Final = 5.0
_HEALTH_SECONDS: Final = 2.0
#: New event types arrive in bursts (a deploy); the controller need not see them all at once.
_MAX_CONCURRENT: Final = 4
_POLL_SECONDS: Final = 0.02
#: After this time at most a changed setting is known, and a deleted topic made again.
_REREAD_SECONDS: Final = 30.0
#: Topics in one request for settings.
_AT_A_TIME: Final = 100
_MIN_ISR: Final = "min.insync.replicas"
#: Kafka's own defaults: what a topic has whose settings may not be read.
_KAFKA_DEFAULTS: Final = {"max.message.bytes": "1048588", "cleanup.policy": "delete"}


#: Returns how many partitions the registry wants a new topic to have, None if it does not say.
PartitionsOf = Callable[[str], int | None]


@dataclass(frozen=True, slots=True)
class TopicState:
    """The settings of an existing topic that the gateway needs."""

    max_message_bytes: int


class TopicManager:
    """Ensures that topics exist with safe settings; remembers those that do."""

    def __init__(self, settings: KafkaSettings, partitions_of: PartitionsOf) -> None:
        self._settings = settings
        self._partitions_of = partitions_of
        self._known: dict[str, TopicState] = {}
        self._ensuring: dict[str, asyncio.Task[TopicState]] = {}
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)
        self._rereading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read the settings of topics in use again, now and then."""
        self._rereading = asyncio.create_task(self._reread_always(), name="topic-settings")

    def known(self, topic: str) -> TopicState | None:
        """Return the topic's state if it was ensured before, else None."""
        return self._known.get(topic)

    def forget(self, topic: str) -> None:
        """Ensure the topic again before its next use: what is remembered of it may be wrong."""
        self._known.pop(topic, None)

    async def ensure(self, topic: str) -> TopicState:
        """Create or check the topic unless that was done; concurrent callers share one task.

        Raises:
            InfrastructureError: KAFKA_UNREACHABLE; or the topic is missing or has unsafe settings.
        """
        known = self._known.get(topic)
        if known is not None:
            return known
        task = self._ensuring.get(topic)
        if task is None:
            task = self._ensuring[topic] = asyncio.create_task(self._ensure(topic))
            task.add_done_callback(partial(self._on_ensured, topic))
        return await asyncio.shield(task)

    def _on_ensured(self, topic: str, task: "asyncio.Task[TopicState]") -> None:
        self._ensuring.pop(topic, None)
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio would warn: the requests may have left

    async def health(self) -> Health:
        """Return how many brokers the cluster has, or that it is unreachable, within two seconds."""
        replicas = self._settings.min_insync
        try:
            async with asyncio.timeout(_HEALTH_SECONDS), self._admin() as admin:
                cluster = await admin.describe_cluster()
        except (KafkaError, OSError, TimeoutError):
            return Health(reachable=False, brokers=0, min_insync_replicas=replicas)
        return Health(reachable=True, brokers=len(cluster["brokers"]), min_insync_replicas=replicas)

    async def stop(self) -> None:
        """Cancel what is under way."""
        tasks = [*self._ensuring.values(), *([self._rereading] if self._rereading else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _reread_always(self) -> None:
        while True:
            await asyncio.sleep(_REREAD_SECONDS)
            try:
                await self._reread()
            except (KafkaError, OSError, TimeoutError) as e:
                logger.info("topics' settings could not be read again", extra={"reason": type(e).__name__})

    async def _reread(self) -> None:
        """Read what is remembered of topics again; one that is gone or unsafe is ensured at its next use."""
        topics = [*self._known]
        if not topics:
            return
        async with self._admin() as admin:
            for first in range(0, len(topics), _AT_A_TIME):
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    asked = [_settings_of(topic) for topic in topics[first : first + _AT_A_TIME]]
                    (response,) = await admin.describe_configs(asked)
                for resource in response.resources:
                    self._remember(resource)

    def _remember(self, resource: Any) -> None:
        topic, error = resource[3], for_code(resource[0])
        if topic not in self._known or error is TopicAuthorizationFailedError:
            return
        config = {entry[0]: entry[1] for entry in resource[4]}
        if error is NoError and self._unsafe(topic, config) is None:
            self._known[topic] = _state(config)
        else:
            self.forget(topic)

    async def _ensure(self, topic: str) -> TopicState:
        try:
            async with self._slots, asyncio.timeout(_TIMEOUT_SECONDS), self._admin() as admin:
                if self._settings.create_topics:
                    await self._create(admin, topic)
                else:
                    await _must_exist(admin, topic)
                config = await self._config(admin, topic)
        except (KafkaError, OSError, TimeoutError) as e:
            raise InfrastructureError(
                KAFKA_UNREACHABLE, f"the topic could not be ensured: {type(e).__name__}"
            ) from e
        self._reject_unsafe(topic, config)
        self._known[topic] = _state(config)
        return self._known[topic]

    async def _create(self, admin: AIOKafkaAdminClient, topic: str) -> None:
        spec = event_topic(topic, self._partitions_of(topic) or self._settings.partitions)
        wanted = NewTopic(
            spec.name,
            num_partitions=spec.partitions,
            replication_factor=self._settings.replication,
            topic_configs={_MIN_ISR: str(self._settings.min_insync), **spec.config},
        )
        response = await admin.create_topics([wanted])
        error = for_code(response.topic_errors[0][1])
        if error is NoError:
            logger.info("topic created", extra={"topic": topic, "partitions": spec.partitions})
        elif error is not TopicAlreadyExistsError:
            raise error(topic)

    async def _config(self, admin: AIOKafkaAdminClient, topic: str) -> dict[str, str]:
        resource: Any = None
        log_fields = {"topic": topic, "promised": self._settings.min_insync}
        error: Any = UnknownTopicOrPartitionError
        while error is UnknownTopicOrPartitionError:  # the caller's timeout ends it
            if resource is not None:
                # Created, but this broker does not know of it yet.
                await asyncio.sleep(_POLL_SECONDS)
            responses = await admin.describe_configs([_settings_of(topic)])
            resource = responses[0].resources[0]
            error = for_code(resource[0])
        if error is TopicAuthorizationFailedError and not self._settings.create_topics:
            logger.warning(
                "a topic's settings cannot be checked: DESCRIBE_CONFIGS is missing", extra=log_fields
            )
            return {**_KAFKA_DEFAULTS, _MIN_ISR: str(self._settings.min_insync)}
        if error is not NoError:
            raise error(topic)
        return {entry[0]: entry[1] for entry in resource[4]}

    def _reject_unsafe(self, topic: str, config: dict[str, str]) -> None:
        detail = self._unsafe(topic, config)
        if detail is not None:
            logger.error("topic is unsafe", extra={"topic": topic, "reason": detail})
            raise InfrastructureError(TOPIC_UNSAFE, detail)

    def _unsafe(self, topic: str, config: dict[str, str]) -> str | None:
        """Return why the topic may lose what is accepted, None if it does not."""
        if int(config[_MIN_ISR]) < self._settings.min_insync:
            return f"{_MIN_ISR} of {topic} is {config[_MIN_ISR]}, promised are {self._settings.min_insync}"
        if "compact" in config["cleanup.policy"]:
            return f"{topic} is compacted: events with equal keys would be removed"
        return None

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        # A client per use: uses are rare, and a new one knows no dead broker.
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


def _settings_of(topic: str) -> ConfigResource:
    """Return the question for the settings that matter: a topic has forty, which take time to parse."""
    return ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys([*_KAFKA_DEFAULTS, _MIN_ISR]))


def _state(config: dict[str, str]) -> TopicState:
    return TopicState(int(config["max.message.bytes"]))


async def _must_exist(admin: AIOKafkaAdminClient, topic: str) -> None:
    """Raise `InfrastructureError` TOPIC_MISSING if there is no such topic, and aiokafka's errors."""
    (description,) = await admin.describe_topics([topic])
    error = for_code(description["error_code"])
    if error is UnknownTopicOrPartitionError:
        raise InfrastructureError(TOPIC_MISSING, f"there is no topic {topic}")
    if error is not NoError:
        raise error(topic)
