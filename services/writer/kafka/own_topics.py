"""Onramp's own topics: made with the settings that its promises stand on, and looked at again.

With a retention, parked and waiting events expire; without compaction, or with deletion beside
it, plans and baselines do; with fewer replicas in sync, a crash takes any of them.  Nobody
notices before they are missed, so what exists is not taken as found.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
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
from shared.topics import OUTGROWN, OWN_TOPICS, TopicSpec

log = logging.getLogger(__name__)

_MIN_INSYNC: Final = "min.insync.replicas"
#: More is as good.
_AT_LEAST: Final = frozenset({_MIN_INSYNC, "max.message.bytes"})
_SECONDS: Final = 8.0
_UNHEARD_SECONDS: Final = 0.02
#: An entry of Kafka's answer, and its DYNAMIC_TOPIC_CONFIG.
_NAME, _VALUE, _SOURCE = 0, 1, 3
_OF_THE_TOPIC: Final = 1


class OwnTopics:
    """The topics that Onramp keeps for itself."""

    def __init__(self, admin: AIOKafkaAdminClient, settings: KafkaSettings) -> None:
        self._admin = admin
        self._settings = settings

    async def ensure(self) -> None:
        """Make those that are missing, unless that is somebody else's, and set what nobody has set.

        What nobody has set on a topic itself it has from its broker, perhaps because an older
        release made it: it is set, and so is what that release set and is too little by now.
        What somebody has set is a person's to change.

        Raises:
            InfrastructureError: one is missing and not ours to make, or is set up unsafely.
        """
        if self._settings.create_topics:
            for spec in OWN_TOPICS:
                await self._make(spec)
            await self._set_what_no_person_has_set()
        elif missing := await self._missing():
            raise InfrastructureError(OWN_TOPIC_MISSING, "; ".join(map(self._making, missing)))
        if wrong := await self.wrong():
            raise InfrastructureError(OWN_TOPIC_UNSAFE, "; ".join(wrong))

    async def wrong(self) -> list[str]:
        """What is set otherwise than it must be, each with the command that mends it."""
        async with asyncio.timeout(_SECONDS):
            found = await self._settings_of([spec.name for spec in OWN_TOPICS])
        return [
            self._said(spec.name, name, is_, must)
            for spec in OWN_TOPICS
            for name, is_, must in differences(self._wanted(spec), found[spec.name])
        ]

    async def look(self) -> list[str] | None:
        """As `wrong`; None: it cannot be told now, because a broker that is away was asked."""
        try:
            return await self.wrong()
        except (KafkaError, TimeoutError) as e:
            log.warning("Onramp's own topics are looked at another time", extra={"reason": type(e).__name__})
            return None

    async def _set_what_no_person_has_set(self) -> None:
        async with asyncio.timeout(_SECONDS):
            own = await self._settings_of([spec.name for spec in OWN_TOPICS], own=True)
            all_ = await self._settings_of([spec.name for spec in OWN_TOPICS])
        for spec in OWN_TOPICS:
            lacking = {
                name: must
                for name, is_, must in differences(self._wanted(spec), all_[spec.name])
                if name not in own[spec.name] or (name, is_) in OUTGROWN
            }
            if lacking:
                log.warning("a topic of Onramp's own gets settings", extra={"topic": spec.name, **lacking})
                # Kafka takes what is not named for not set any more.
                settings = own[spec.name] | lacking
                topic = ConfigResource(ConfigResourceType.TOPIC, spec.name, configs=settings)
                await self._admin.alter_configs([topic])  # what was refused is seen by the next look

    def _wanted(self, spec: TopicSpec) -> dict[str, str]:
        return {**spec.config, _MIN_INSYNC: str(self._settings.min_insync)}

    async def _missing(self) -> list[TopicSpec]:
        """Those that are not there, for all that this user sees; nothing is made by asking."""
        async with asyncio.timeout(_SECONDS):
            seen = {each["topic"] for each in await self._admin.describe_topics()}
        return [spec for spec in OWN_TOPICS if spec.name not in seen]

    async def _make(self, spec: TopicSpec) -> None:
        partitions = spec.partitions or self._settings.partitions
        new = NewTopic(spec.name, partitions, self._settings.replication, topic_configs=self._wanted(spec))
        answer = await self._admin.create_topics([new])
        for _, code, message in answer.topic_errors:
            if code not in (0, TopicAlreadyExistsError.errno):
                raise for_code(code)(f"topic {spec.name} could not be made: {message}")

    async def _settings_of(self, names: list[str], *, own: bool = False) -> dict[str, dict[str, str]]:
        """The settings of each topic, or its `own` without its broker's; the caller's patience bounds it."""
        while True:
            asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
            resources: list[Any] = [r for a in await self._admin.describe_configs(asked) for r in a.resources]
            errors = {for_code(code) for code, *_ in resources} - {NoError}
            if not errors:
                return {
                    name: {e[_NAME]: e[_VALUE] for e in entries if not own or e[_SOURCE] == _OF_THE_TOPIC}
                    for _, _, _, name, entries in resources
                }
            if errors != {UnknownTopicOrPartitionError}:
                raise errors.pop()("the settings of Onramp's own topics cannot be read")
            await asyncio.sleep(_UNHEARD_SECONDS)  # made, but this broker has not heard of it yet

    def _making(self, spec: TopicSpec) -> str:
        configs = " ".join(f"--config {name}={must}" for name, must in self._wanted(spec).items())
        return (
            f"{spec.name} does not exist, or we may not describe it; make it with kafka-topics "
            f"--bootstrap-server {self._settings.bootstrap} --create --topic {spec.name} --partitions "
            f"{spec.partitions or self._settings.partitions} --replication-factor "
            f"{self._settings.replication} {configs}"
        )

    def _said(self, topic: str, name: str, is_: str | None, must: str) -> str:
        least = "at least " if name in _AT_LEAST else ""
        return (
            f"{topic}: {name} is {is_} and must be {least}{must}; mend it with kafka-configs "
            f"--bootstrap-server {self._settings.bootstrap} --alter --entity-type topics "
            f"--entity-name {topic} --add-config {name}={must}"
        )


def differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> Iterator[tuple[str, str | None, str]]:
    """Settings that are not as `wanted`: name, what it is, what it must be."""
    for name, must in wanted.items():
        is_ = found.get(name)
        enough = is_ is not None and name in _AT_LEAST and int(is_) >= int(must)
        if is_ != must and not enough:
            yield name, is_, must
