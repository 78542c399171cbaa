"""The settings of Onramp's topics, as data: each service's Kafka adapter applies them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from shared import wire

_FOREVER: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_MAX_BYTES: Final = "max.message.bytes"
#: Whatever fits an event's topic (1 MiB by Kafka's default, 10 MiB in the stack of one machine) fits
#: here too, with all that Onramp says of it.
_ROOM: Final = {_MAX_BYTES: str(16 << 20)}
_COMPACTED: Final = {"cleanup.policy": "compact"}
#: Parked and waiting events are kept until an operator or the drainer has handled them.
_KEPT: Final = {**_FOREVER, **_ROOM}


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """The wanted settings of a topic.  `partitions` 0: as many as a new event type has."""

    name: str
    partitions: int = 0
    config: Mapping[str, str] = field(default_factory=dict)


#: The writer creates them when it starts, and checks from then on that these settings are in place.
OWN_TOPICS: Final = (
    TopicSpec(wire.USER_ERRORS, 2, _KEPT),
    TopicSpec(wire.SYSTEM_ERRORS, 2, _KEPT),
    TopicSpec(wire.SETTLED, 1, {**_COMPACTED, **_ROOM}),
    TopicSpec(wire.WRITERS, 1, _COMPACTED),
)


def registry_topic(name: str) -> TopicSpec:
    """Return the specification of the registry's topic, made by whoever reads or writes it first."""
    return TopicSpec(name, 1, _KEPT)


REGISTRY_TOPIC: Final = registry_topic(wire.REGISTRY)


def event_topic(name: str, partitions: int = 0, retention_ms: int | None = None) -> TopicSpec:
    """Return the specification of an event type's topic; without a retention it is Kafka's."""
    return TopicSpec(name, partitions, {} if retention_ms is None else {"retention.ms": str(retention_ms)})
