"""The registry's view of event topics: their event types, retention, and personal fields."""

from collections.abc import Mapping
from typing import Any, Final

from services.ops.kafka_logs import LogRecord
from services.ops.operate.topics import TopicFacts
from services.ops.times import as_moment
from shared import wire
from shared.mask import masked
from shared.registry import Snapshot
from shared.registry.texts import milliseconds

_OWN_HEADERS: Final = frozenset(
    {wire.HEADER_CONTEXT, wire.HEADER_RECEIVED_AT, wire.HEADER_PRODUCER, wire.HEADER_TRACEPARENT}
)
_MAX_HEADER: Final = 200


class _Index:
    """The event types by topic of the last registry: a list of topics looks up each of them."""

    def __init__(self) -> None:
        self._last: tuple[str, dict[str, list[str]]] = ("", {})

    def of(self, registry: Snapshot) -> dict[str, list[str]]:
        """Return the index of a registry, which is known by its digest."""
        digest, found = self._last
        if digest != registry.digest:
            found = _types_by_topic(registry)
            self._last = registry.digest, found
        return found


_index: Final = _Index()


def types_by_topic(registry: Snapshot) -> Mapping[str, list[str]]:
    """Return the event types of each topic that has any."""
    return _index.of(registry)


def _types_by_topic(registry: Snapshot) -> dict[str, list[str]]:
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
    """Return a record as the shape of its values, with its position, time and headers.

    Values of headers that Onramp does not write are hidden: another client may put anything there.
    """
    return {
        "partition": record.source.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "time": _time_of(record.timestamp),
        "headers": {name: _header(name, value) for name, value in record.headers.items()},
        "event": masked(record.value, personal),
    }


def _time_of(timestamp: int) -> str | None:
    """Return a record's time (ISO 8601); None for one without a time, or outside the years 1 to 9999."""
    found = as_moment(timestamp) if timestamp >= 0 else None
    return None if found is None else found.isoformat()


def _header(name: str, value: bytes) -> str:
    if (
        name in _OWN_HEADERS
        and value.isascii()
        and len(value) <= _MAX_HEADER
        and value.decode().isprintable()
    ):
        return value.decode()
    return f"{len(value)} bytes"
