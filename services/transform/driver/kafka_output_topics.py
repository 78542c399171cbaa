"""Creates missing topics of outputs with the settings that the gateway would give them."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from aiokafka.admin import NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from shared.kafka_group_offsets import GroupOffsetsClient
from shared.registry.entries import EventType
from shared.registry.texts import milliseconds
from shared.settings import KafkaSettings
from shared.topics import event_topic

log = logging.getLogger(__name__)

_SECONDS: Final = 8.0
_MIN_ISR: Final = "min.insync.replicas"


class OutputTopics:
    """Ensures that topics exist; a topic that cannot be created makes its transform's runs fail and wait."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._known: set[str] = set()

    def forget(self) -> None:
        """Check all topics at the next refresh: one may have been deleted."""
        self._known.clear()

    async def ensure(self, topics: Mapping[str, EventType | None]) -> None:
        """Create those of `topics` that do not exist, unless this service creates no topics."""
        new = {name: each for name, each in topics.items() if name not in self._known}
        if not new or not self._settings.create_topics:
            return
        admin = GroupOffsetsClient(**self._settings.brokers.aiokafka(), request_timeout_ms=8_000)
        try:
            async with asyncio.timeout(_SECONDS):
                await admin.start()
                existing = await admin.named_topics(new)
                self._known |= existing.keys()
                missing = [self._spec(name, each) for name, each in new.items() if name not in existing]
                if missing:
                    self._note(await admin.create_topics(missing))
        except (KafkaError, TimeoutError, OSError) as e:
            log.warning("could not ensure the topics of outputs", extra={"reason": type(e).__name__})
        finally:
            await admin.close()

    def _spec(self, name: str, event_type: EventType | None) -> NewTopic:
        retention = milliseconds(event_type.retention) if event_type and event_type.retention else None
        spec = event_topic(name, (event_type.partitions if event_type else None) or 0, retention)
        return NewTopic(
            spec.name,
            num_partitions=spec.partitions or self._settings.partitions,
            replication_factor=self._settings.replication,
            topic_configs={_MIN_ISR: str(self._settings.min_insync), **spec.config},
        )

    def _note(self, answer: object) -> None:
        for topic, code, *_ in answer.topic_errors:  # type: ignore[attr-defined]  # aiokafka has no types
            if code in (0, TopicAlreadyExistsError.errno):
                self._known.add(topic)
                log.info("topic created", extra={"topic": topic})
            else:
                reason = for_code(code).__name__
                log.error("could not create the topic of an output", extra={"topic": topic, "reason": reason})
