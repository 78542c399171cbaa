"""How Onramp's topics are configured: data, so that each service's Kafka adapter can apply it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from shared import wire

_FOREVER: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_MOST_BYTES: Final = "max.message.bytes"
#: Whatever fits an event's topic (1 MiB by Kafka's default, 10 MiB in the stack of one machine) fits
#: here too, with all that Onramp says of it.
_ROOM: Final = {_MOST_BYTES: str(16 << 20)}
_COMPACTED: Final = {"cleanup.policy": "compact"}
#: Parked and waiting events are kept until a person or the drainer is done with them.
_KEPT: Final = {**_FOREVER, **_ROOM}
#: What an older release set on its own topics, and a person hardly did.
OUTGROWN: Final = frozenset({(_MOST_BYTES, str(10 << 20))})


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it should be.  `partitions` 0 means the setting of new event types."""

    name: str
    partitions: int = 0
    config: Mapping[str, str] = field(default_factory=dict)


#: Made by the writer when it starts, and looked at from then on: what is set here must be so.
OWN_TOPICS: Final = (
    TopicSpec(wire.USER_ERRORS, 2, _KEPT),
    TopicSpec(wire.SYSTEM_ERRORS, 2, _KEPT),
    TopicSpec(wire.SETTLED, 1, {**_COMPACTED, **_ROOM}),
    TopicSpec(wire.WRITERS, 1, _COMPACTED),
)


def event_topic(name: str, partitions: int) -> TopicSpec:
    """The topic of an event type."""
    return TopicSpec(name, partitions)
