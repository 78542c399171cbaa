"""No service goes on without the keys of a file that its environment still names."""

import pytest

from shared.read_settings import WrongSettingsError
from shared.registry.opened import open_registry
from shared.settings import KafkaSettings, RegistrySettings


@pytest.mark.parametrize(
    ("name", "value"), [("ONRAMP_REGISTRY_FILE", "/etc/onramp.yaml"), ("ONRAMP_REGISTRY_SOURCE", "file")]
)
def test_a_file_is_refused_with_what_to_do(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(WrongSettingsError, match=rf"^{name}: .*`onramp apply FILE`, and unset the variable"):
        open_registry(RegistrySettings(), KafkaSettings())


def test_the_source_that_is_left_starts_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRAMP_REGISTRY_SOURCE", "kafka")
    registry = open_registry(RegistrySettings(), KafkaSettings())
    assert not registry.is_read
    registry.close()
