"""The topic settings that the gateway needs: the maximum event size, and whether a 202 is safe."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

MIN_ISR: Final = "min.insync.replicas"
#: Kafka's defaults, used for a topic whose settings may not be read.
KAFKA_DEFAULTS: Final = {"max.message.bytes": "1048588", "cleanup.policy": "delete"}


@dataclass(frozen=True, slots=True)
class TopicState:
    """The settings of an existing topic that the gateway needs."""

    max_message_bytes: int


def question(topic: str) -> ConfigResource:
    """Return the DescribeConfigs resource of the needed settings: all forty are slow to parse."""
    return ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys([*KAFKA_DEFAULTS, MIN_ISR]))


def answer(resource: Any) -> tuple[str, Any, dict[str, str]]:
    """Return the topic, aiokafka's error and the settings of one resource of a DescribeConfigs response."""
    return resource[3], for_code(resource[0]), {entry[0]: entry[1] for entry in resource[4]}


def state(config: Mapping[str, str]) -> TopicState:
    """Return the cached state of a topic with these settings."""
    return TopicState(int(config["max.message.bytes"]))


def unsafe(topic: str, config: Mapping[str, str], min_insync: int) -> str | None:
    """Return why the topic may lose accepted events; None if it is safe."""
    if int(config[MIN_ISR]) < min_insync:
        return f"{MIN_ISR} of {topic} is {config[MIN_ISR]}, at least {min_insync} is required"
    if "compact" in config["cleanup.policy"]:
        return f"{topic} is compacted: events with equal keys would be removed"
    return None
