"""The topics of the outputs of transforms, of all versions of the registry."""

from collections import defaultdict
from collections.abc import Mapping

from services.ops.transforms.deploys import counted_changes
from shared.registry.entries import EventType, topic_of
from shared.registry.factory import open_log
from shared.registry.log import RegistryLog
from shared.settings import KafkaSettings, RegistrySettings


def output_topics_of(kafka: KafkaSettings) -> Mapping[str, frozenset[str]]:
    """Return the topics by the registry on Kafka.  Raises `InfrastructureError`."""
    log = open_log(RegistrySettings(), kafka)
    try:
        return output_topics(log)
    finally:
        log.close()


def output_topics(log: RegistryLog) -> Mapping[str, frozenset[str]]:
    """Return the topics by transform: outputs of an earlier version are on its topics.

    Raises `InfrastructureError`.
    """
    event_types: dict[str, EventType] = {}
    names: defaultdict[str, set[str]] = defaultdict(set)
    topics: defaultdict[str, set[str]] = defaultdict(set)
    for _, change in counted_changes(log):
        event_types |= change.put.event_types
        for name, transform in change.put.transforms.items():
            names[name].update(transform.to)
        for name, outputs in names.items():
            topics[name].update(topic_of(each, event_types) for each in outputs)
    return {name: frozenset(each) for name, each in topics.items()}
