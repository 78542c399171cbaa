"""A service's registry is opened before Kafka can be reached."""

from shared.registry.factory import open_registry
from shared.settings import KafkaSettings, RegistrySettings


def test_a_registry_starts_unread() -> None:
    registry = open_registry(RegistrySettings(), KafkaSettings())
    assert not registry.is_read
    registry.close()
