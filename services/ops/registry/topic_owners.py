"""The registry's view of event topics: their event types, retention, and personal fields."""

from typing import Any

from services.ops.kafka_logs import LogRecord
from services.ops.operate.topics import TopicFacts
from shared import wire
from shared.mask import masked
from shared.registry import Snapshot
from shared.registry.texts import milliseconds


def types_by_topic(registry: Snapshot) -> dict[str, list[str]]:
    """Return the event types of each topic that has any."""
    named: dict[str, list[str]] = {}
    for name, event_type in sorted(registry.event_types.items()):
        named.setdefault(event_type.topic or wire.topic_of(name), []).append(name)
    return named


def events_of(registry: Snapshot, topic: str) -> list[str]:
    """Return the names of the events that a gateway sends to a topic, as far as the registry knows."""
    usual = topic.removeprefix(wire.EVENT_TOPIC_PREFIX)
    unsaid = [usual] if usual != topic and wire.EVENT_NAME.fullmatch(usual) else []
    return sorted({*types_by_topic(registry).get(topic, []), *unsaid})


def retention_of(registry: Snapshot, topic: str) -> str | None:
    """Return a topic's retention, by the first of its event types that sets one."""
    types = types_by_topic(registry).get(topic, [])
    return next((said for name in types if (said := registry.event_types[name].retention)), None)


def facts_with_types(registry: Snapshot, found: TopicFacts) -> dict[str, Any]:
    """Return the facts of a topic, its event types, and whether its retention matches theirs."""
    said = retention_of(registry, found.topic)
    return found.as_dict() | {
        "event_types": types_by_topic(registry).get(found.topic, []),
        "retention_said": said,
        "retention_differs": said is not None and milliseconds(said) != found.retention_ms,
    }


def personal_of(registry: Snapshot, topic: str) -> list[str]:
    """Return the pointers to the personal fields of a topic's records.

    A topic without a type has the personal fields of all types.
    """
    types = types_by_topic(registry).get(topic)
    if types is None:
        return list(registry.personal_of(None))
    return [pointer for name in types for pointer in registry.event_types[name].personal]


def shown(record: LogRecord, personal: list[str]) -> dict[str, Any]:
    """Return a record as the shape of its values, with its position."""
    place = {"partition": record.source.partition, "offset": record.offset, "timestamp": record.timestamp}
    return place | {"event": masked(record.value, personal)}
