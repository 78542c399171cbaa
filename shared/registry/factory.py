"""Opens the registry of a service: the log on Kafka that the settings name."""

from shared.registry.kafka_log import KafkaLog
from shared.registry.log_registry import LogRegistry
from shared.registry.port import Check, no_check
from shared.settings import KafkaSettings, RegistrySettings
from shared.topics import registry_topic


def open_registry(settings: RegistrySettings, kafka: KafkaSettings, check: Check = no_check) -> LogRegistry:
    """Return the registry, which is unread until its first refresh."""
    return LogRegistry(open_log(settings, kafka), check)


def open_log(settings: RegistrySettings, kafka: KafkaSettings) -> KafkaLog:
    """Return the log that stores the registry; it connects at its first use."""
    return KafkaLog(kafka, registry_topic(settings.topic))
