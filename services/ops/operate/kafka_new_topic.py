"""Creates an event type's topic as the gateway would, with an operator's deviations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, NoError, TopicAlreadyExistsError, for_code

from shared import wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.registry import EventType
from shared.registry.texts import milliseconds
from shared.settings import KafkaSettings
from shared.topics import event_topic

_REQUEST_MS: Final = 10_000
#: The limit of the gateway's own setting.
_MAX_PARTITIONS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The requested settings; None takes the gateway's."""

    topic: str
    partitions: int | None = None
    replication: int | None = None
    retention: str | None = None


def spec_of(wanted: Wanted, types: Mapping[str, EventType], kafka: KafkaSettings) -> NewTopic:
    """Return the specification of the new topic.

    Raises:
        ValueError: the gateway would not use such a topic; the message says which it accepts.
    """
    own = [t for name, t in types.items() if (t.topic or wire.topic_of(name)) == wanted.topic]
    name = wanted.topic.removeprefix(wire.EVENT_TOPIC_PREFIX)
    is_usual = wanted.topic != name and wire.EVENT_NAME.fullmatch(name)
    if not own and (not is_usual or wire.is_reserved(name)):
        raise ValueError("no event uses this topic: name an event, or a topic of an event type")
    said = next((t.partitions for t in own if t.partitions), None)
    if said and wanted.partitions not in (None, said):
        raise ValueError(f"the registry has {said} partitions: change the registry, or omit the option")
    replication = wanted.replication or kafka.replication
    if replication < kafka.min_insync:
        text = f"{replication} replicas are less than ONRAMP_KAFKA_MIN_INSYNC={kafka.min_insync}"
        raise ValueError(f"{text}: no event could be accepted")
    partitions = wanted.partitions or said or kafka.partitions
    if partitions > _MAX_PARTITIONS:
        raise ValueError(f"at most {_MAX_PARTITIONS} partitions: each costs a millisecond of every batch")
    retention = wanted.retention or next((t.retention for t in own if t.retention), None)
    spec = event_topic(wanted.topic, partitions, milliseconds(retention) if retention else None)
    config = {"min.insync.replicas": str(kafka.min_insync), **spec.config}
    return NewTopic(spec.name, spec.partitions, replication, topic_configs=config)


async def create(spec: NewTopic, kafka: KafkaSettings, *, is_dry: bool = False) -> str:
    """Create the topic; dry, only validate it. Return Kafka's reason for a refusal, or an empty text.

    Raises `InfrastructureError`.
    """
    admin = AIOKafkaAdminClient(**kafka.brokers.aiokafka(), request_timeout_ms=_REQUEST_MS)
    try:
        await admin.start()
        response = await admin.create_topics([spec], validate_only=is_dry)
    except (KafkaError, OSError) as e:
        text = f"Kafka at {kafka.bootstrap} does not answer: {type(e).__name__}"
        raise InfrastructureError(KAFKA_UNAVAILABLE, text) from None
    finally:
        await admin.close()
    ((_, code, *_),) = response.topic_errors
    error = for_code(code)
    if error is NoError:
        return ""
    if error is TopicAlreadyExistsError:
        return "it exists already: `onramp topics list` prints its settings"
    return f"Kafka refuses: {error.__name__}"
