"""The settings of Onramp's topics as data, applied by each service's Kafka adapter."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from shared import wire

_FOREVER: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_MAX_BYTES: Final = "max.message.bytes"
#: A record that fits an event's topic (1 MiB by Kafka's default, 10 MiB in the stack of one machine) fits
#: here too, with Onramp's metadata.
_ROOM: Final = {_MAX_BYTES: str(16 << 20)}
_COMPACTED: Final = {"cleanup.policy": "compact"}
#: Parked and waiting events are retained until an operator or the drainer has handled them.
_RETAINED: Final = {**_FOREVER, **_ROOM}
#: Records have the time of their job, from which the admin service reads both topics.
_REPLAYS: Final = {**_RETAINED, "message.timestamp.type": "CreateTime"}


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """The desired settings of a topic. `partitions` 0: as many as for a new event type."""

    name: str
    partitions: int = 0
    config: Mapping[str, str] = field(default_factory=dict)


#: The writer creates them at its start, and checks these settings continuously.
OWN_TOPICS: Final = (
    TopicSpec(wire.USER_ERRORS, 2, _RETAINED),
    TopicSpec(wire.SYSTEM_ERRORS, 2, _RETAINED),
    TopicSpec(wire.SETTLED, 1, {**_COMPACTED, **_ROOM}),
    TopicSpec(wire.WRITERS, 1, _COMPACTED),
)

#: The transform service creates them at its start, in addition to those that it shares with the writer.
TRANSFORM_TOPICS: Final = (
    TopicSpec(wire.USER_ERRORS, 2, _RETAINED),
    TopicSpec(wire.TRANSFORMERS, 2, _COMPACTED),
    TopicSpec(wire.TRANSFORMED, 1, _COMPACTED),
    TopicSpec(wire.TRANSFORM_REPLAYS, 1, _REPLAYS),
    TopicSpec(wire.TRANSFORM_REPLAYED, 1, _REPLAYS),
    TopicSpec(wire.TRANSFORM_LOGS, 1, {"cleanup.policy": "delete", "retention.ms": str(86_400_000)}),
)


#: The lake service creates it at its start.
LAKE_TOPICS: Final = (TopicSpec(wire.LAKE, 1, {**_COMPACTED, **_ROOM}),)


def registry_topic(name: str) -> TopicSpec:
    """Return the specification of the registry's topic, created by its first reader or writer."""
    return TopicSpec(name, 1, _RETAINED)


REGISTRY_TOPIC: Final = registry_topic(wire.REGISTRY)


def event_topic(name: str, partitions: int = 0, retention_ms: int | None = None) -> TopicSpec:
    """Return the specification of an event type's topic; without a retention, Kafka's default applies."""
    return TopicSpec(name, partitions, {} if retention_ms is None else {"retention.ms": str(retention_ms)})
