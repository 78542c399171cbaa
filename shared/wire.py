"""Names on Kafka: topics and headers.

Every external client (an app that writes packets, an operator with a console
consumer) uses these names, so a change here changes the public contract.
"""

import re
from typing import Final

EVENT_TOPIC_PREFIX: Final = "events."
CHANGE_TOPIC_PREFIX: Final = "cdc."
#: Topics of Kafka itself, and Onramp's own.
OWN_TOPIC_PREFIXES: Final = ("__", "onramp.")
USER_ERRORS: Final = "onramp.user_errors"
SYSTEM_ERRORS: Final = "onramp.system_errors"
SETTLED: Final = "onramp.settled"
WRITERS: Final = "onramp.writers"
REGISTRY: Final = "onramp.registry"
WRITER_GROUP: Final = "onramp-writer"
#: The lake: plans, routes and positions of tables, compacted; and the group of its process.
LAKE: Final = "onramp.lake"
LAKE_GROUP: Final = "onramp-lake"
#: Transforms: partition 0 has the epochs of their drivers, partition 1 their states by key `state:<name>`.
TRANSFORMERS: Final = "onramp.transformers"
#: The totals of each transform, source partition and topic generation, by that key.
TRANSFORMED: Final = "onramp.transformed"
#: Events that an operator gives to a transform again; the key and the header `context` name the transform.
TRANSFORM_REPLAYS: Final = "onramp.transform_replays"
#: The outcomes of these events.
TRANSFORM_REPLAYED: Final = "onramp.transform_replayed"
#: Lines that functions printed or logged, for a day.
TRANSFORM_LOGS: Final = "onramp.transform_logs"
#: Prefix of a transform's consumer group, and of the transactional ids of its lanes.
TRANSFORM_GROUP: Final = "onramp-transform-"
#: Prefix of the destination of an event that a transform parked.
TRANSFORM_DESTINATION: Final = "transform:"

HEADER_CONTEXT: Final = "context"
HEADER_RECEIVED_AT: Final = "onramp-received-at"
HEADER_PRODUCER: Final = "onramp-producer"
HEADER_TRACEPARENT: Final = "traceparent"
#: The receipt of the event that a transform's output was made of, and the transform's name and version.
HEADER_SOURCE: Final = "onramp-source"
HEADER_TRANSFORM: Final = "onramp-transform"

#: The usual context header of a record for the writer's filter. Other spacings and key orders of the
#: same JSON mean the same (docs/path-of-an-event.md, FILTER); these take the fast path.
CONTEXT_BYTES: Final = b'{"consumer":{"type":"data_pipeline"}}'
CONTEXT: Final = {"consumer": {"type": "data_pipeline"}}

#: Maximum bytes of the two headers that the writer reads (context, received-at) together. The gateway
#: writes 69 bytes, and another client few more; larger ones are not carried, parsed or stored, or
#: one record could cost as much memory as a batch may.
MAX_HEADER_BYTES: Final = 64 << 10

#: Maximum headers of a record. The gateway writes at most four, and traces add a dozen; the headers of a
#: record with more are not walked, because ten thousand empty ones are a few bytes on Kafka.
MAX_HEADERS: Final = 100

#: The tracer and deploy probes send events of this type. They land and are not counted, except duplicates
#: on the topic of this name, which the tracer reads.
PROBE_EVENT: Final = "onramp_probe"
#: The form of the entrance of tracers that the built-in transform emits again.
TRANSFORM_ENTRANCE: Final = "transform"
RESERVED_PREFIX: Final = "onramp_"

EVENT_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")


def topic_of(event_name: str) -> str:
    """Return the default topic of an event type."""
    return EVENT_TOPIC_PREFIX + event_name


def is_change_topic(topic: str, source: str) -> bool:
    """Return whether `topic` has changes of this source: `cdc.<source>-<schema>-<table>` or its transactions.

    Other topics of a source are internal to Debezium.
    """
    prefix = f"{CHANGE_TOPIC_PREFIX}{source}-"
    rest = topic.removeprefix(prefix)
    return topic.startswith(prefix) and ("-" in rest or rest == "transaction")


def is_refused(destination: str) -> bool:
    """Return whether an event parked for `destination` was refused: it is empty or a pointer."""
    return not destination or destination.startswith("/")


def is_reserved(event_name: str) -> bool:
    """Return whether the event name is reserved (the probe's own name is allowed)."""
    return event_name.startswith(RESERVED_PREFIX) and event_name != PROBE_EVENT
