"""Creates Onramp's own topics with the settings that its guarantees need, and checks existing topics.

With a retention, parked and waiting events expire.  Without compaction, or with deletion in addition to it,
plans and baselines grow or expire.  With fewer in-sync replicas, a crash may lose any of them.  The loss
would be noticed late, so an existing topic is not assumed to be correct.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaError,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from shared.errors import OWN_TOPIC_MISSING, OWN_TOPIC_UNSAFE, InfrastructureError
from shared.settings import KafkaSettings
from shared.topics import OWN_TOPICS, TopicSpec

log = logging.getLogger(__name__)

_MIN_INSYNC: Final = "min.insync.replicas"
#: Settings for which a larger value is acceptable.
_MIN: Final = frozenset({_MIN_INSYNC, "max.message.bytes"})
_SECONDS: Final = 8.0
_RETRY_SECONDS: Final = 0.02
#: Fields of an entry in Kafka's response, and the value of the source DYNAMIC_TOPIC_CONFIG.
_NAME, _VALUE, _SOURCE = 0, 1, 3
_OF_THE_TOPIC: Final = 1


class OwnTopics:
    """Onramp's own topics."""

    def __init__(
        self, admin: AIOKafkaAdminClient, settings: KafkaSettings, specs: Sequence[TopicSpec] = OWN_TOPICS
    ) -> None:
        """`specs`: the topics that the service needs."""
        self._admin = admin
        self._settings = settings
        self._specs = specs

    async def ensure(self) -> None:
        """Create missing topics, unless `create_topics` is off, and set unset settings.

        A setting that was never set on the topic comes from its broker, perhaps because an operator
        created the topic; such a setting is set now.  Settings of an operator are not changed.

        Raises:
            InfrastructureError: OWN_TOPIC_MISSING, or OWN_TOPIC_UNSAFE with the commands that fix it.
        """
        if self._settings.create_topics:
            for spec in self._specs:
                await self._create(spec)
            await self._set_unset()
        elif missing := await self._missing():
            raise InfrastructureError(OWN_TOPIC_MISSING, "; ".join(map(self._creation_advice, missing)))
        if wrong := await self.wrong():
            raise InfrastructureError(OWN_TOPIC_UNSAFE, "; ".join(wrong))

    async def wrong(self) -> list[str]:
        """Return the wrong settings, each with the command that fixes it.

        Takes at most 8 s.  Raise aiokafka's errors and `TimeoutError`.
        """
        async with asyncio.timeout(_SECONDS):
            actual = await self._settings_of([spec.name for spec in self._specs])
        return [
            self._setting_advice(spec.name, name, is_, must)
            for spec in self._specs
            for name, is_, must in differences(self._wanted(spec), actual[spec.name])
        ]

    async def check(self) -> list[str] | None:
        """Return the result of `wrong`, or None if a broker did not answer."""
        try:
            return await self.wrong()
        except (KafkaError, TimeoutError) as e:
            reason = type(e).__name__
            log.warning("could not check Onramp's own topics; retrying later", extra={"reason": reason})
            return None

    async def _set_unset(self) -> None:
        async with asyncio.timeout(_SECONDS):
            own = await self._settings_of([spec.name for spec in self._specs], own=True)
            actual = await self._settings_of([spec.name for spec in self._specs])
        for spec in self._specs:
            lacking = {
                name: must
                for name, _, must in differences(self._wanted(spec), actual[spec.name])
                if name not in own[spec.name]
            }
            if lacking:
                log.warning("setting unset values of an own topic", extra={"topic": spec.name, **lacking})
                # Kafka unsets all settings that are not named.
                settings = own[spec.name] | lacking
                topic = ConfigResource(ConfigResourceType.TOPIC, spec.name, configs=settings)
                await self._admin.alter_configs([topic])  # the next check reports rejected settings

    def _wanted(self, spec: TopicSpec) -> dict[str, str]:
        return {**spec.config, _MIN_INSYNC: str(self._settings.min_insync)}

    async def _missing(self) -> list[TopicSpec]:
        """Return the topics that do not exist or are invisible to this user; the request creates none."""
        async with asyncio.timeout(_SECONDS):
            existing = {each["topic"] for each in await self._admin.describe_topics()}
        return [spec for spec in self._specs if spec.name not in existing]

    async def _create(self, spec: TopicSpec) -> None:
        partitions = spec.partitions or self._settings.partitions
        new = NewTopic(spec.name, partitions, self._settings.replication, topic_configs=self._wanted(spec))
        answer = await self._admin.create_topics([new])
        for _, code, message in answer.topic_errors:
            if code not in (0, TopicAlreadyExistsError.errno):
                raise for_code(code)(f"topic {spec.name} could not be made: {message}")

    async def _settings_of(self, names: list[str], *, own: bool = False) -> dict[str, dict[str, str]]:
        """Return the settings of each topic; `own`: without broker defaults.  The caller sets the timeout."""
        while True:
            request = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
            resources: list[Any] = [
                r for a in await self._admin.describe_configs(request) for r in a.resources
            ]
            errors = {for_code(code) for code, *_ in resources} - {NoError}
            if not errors:
                return {
                    name: {e[_NAME]: e[_VALUE] for e in entries if not own or e[_SOURCE] == _OF_THE_TOPIC}
                    for _, _, _, name, entries in resources
                }
            if errors != {UnknownTopicOrPartitionError}:
                raise errors.pop()("the settings of Onramp's own topics cannot be read")
            await asyncio.sleep(_RETRY_SECONDS)  # created, but not yet known to this broker

    def _creation_advice(self, spec: TopicSpec) -> str:
        configs = " ".join(f"--config {name}={must}" for name, must in self._wanted(spec).items())
        return (
            f"{spec.name} does not exist, or this user may not describe it; create it with kafka-topics "
            f"--bootstrap-server {self._settings.bootstrap} --create --topic {spec.name} --partitions "
            f"{spec.partitions or self._settings.partitions} --replication-factor "
            f"{self._settings.replication} {configs}"
        )

    def _setting_advice(self, topic: str, name: str, is_: str | None, must: str) -> str:
        bound = "at least " if name in _MIN else ""
        return (
            f"{topic}: {name} is {is_} and must be {bound}{must}; fix it with kafka-configs "
            f"--bootstrap-server {self._settings.bootstrap} --alter --entity-type topics "
            f"--entity-name {topic} --add-config {name}={must}"
        )


def differences(
    wanted: Mapping[str, str], actual: Mapping[str, str]
) -> Iterator[tuple[str, str | None, str]]:
    """Yield the settings that differ from `wanted`: name, actual value, wanted value."""
    for name, must in wanted.items():
        is_ = actual.get(name)
        enough = is_ is not None and name in _MIN and int(is_) >= int(must)
        if is_ != must and not enough:
            yield name, is_, must
