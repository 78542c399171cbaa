"""Opens the registry of a service: the log in Kafka that the settings name."""

import os
from typing import Final

from shared.read_settings import WrongSettingsError
from shared.registry.kafka_log import KafkaLog
from shared.registry.log_registry import LogRegistry
from shared.registry.port import Check, no_check
from shared.settings import KafkaSettings, RegistrySettings
from shared.topics import registry_topic

_FILE: Final = "ONRAMP_REGISTRY_FILE"
_SOURCE: Final = "ONRAMP_REGISTRY_SOURCE"


def open_registry(settings: RegistrySettings, kafka: KafkaSettings, check: Check = no_check) -> LogRegistry:
    """Return the registry, which is unread until it was refreshed.

    Raises:
        WrongSettingsError: the environment names a file, as earlier releases had it.
    """
    _require_no_file()
    return LogRegistry(open_log(settings, kafka), check)


def open_log(settings: RegistrySettings, kafka: KafkaSettings) -> KafkaLog:
    """Return the log that the registry is kept in; it is reached when it is first asked."""
    return KafkaLog(kafka, registry_topic(settings.topic))


def _require_no_file() -> None:
    """Refuse what named a file: its keys would not be asked for, and no key is an open door."""
    file = os.environ.get(_FILE, "")
    if file or os.environ.get(_SOURCE) == "file":
        raise WrongSettingsError(
            f"{_FILE if file else _SOURCE}: no service reads a file, so what it says would not be in force: "
            "bring it into force with `onramp apply FILE`, and unset the variable (docs/registry.md)"
        )
