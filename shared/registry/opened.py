"""Opens the registry that the settings name: the one place that knows them all."""

from shared.registry.file import FileRegistry
from shared.registry.kafka_log import KafkaLog
from shared.registry.log_registry import LogRegistry
from shared.registry.port import Check, Registry, no_check
from shared.settings import KafkaSettings, RegistrySettings
from shared.topics import registry_topic


def open_registry(settings: RegistrySettings, kafka: KafkaSettings, check: Check = no_check) -> Registry:
    """Return the registry; one in Kafka is unread until it was refreshed, a file is read now.

    Raises:
        RegistryFileError: the file is wrong.
    """
    if settings.source == "kafka":
        return LogRegistry(open_log(settings, kafka), check)
    return FileRegistry(settings.file, check, named=settings.named)


def open_log(settings: RegistrySettings, kafka: KafkaSettings) -> KafkaLog:
    """Return the log that the registry is kept in; it is reached when it is first asked."""
    return KafkaLog(kafka, registry_topic(settings.topic))
