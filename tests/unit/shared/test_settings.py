import pytest
from pydantic import ValidationError

from shared.settings import KafkaSettings


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRAMP_KAFKA_BOOTSTRAP", "a:1,b:2")
    monkeypatch.setenv("ONRAMP_KAFKA_MIN_INSYNC", "2")
    settings = KafkaSettings()
    assert (settings.bootstrap, settings.min_insync) == ("a:1,b:2", 2)


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        KafkaSettings().partitions = 5


@pytest.mark.parametrize("name", ["PARTITIONS", "REPLICATION", "MIN_INSYNC"])
@pytest.mark.parametrize("value", ["0", "many", "-1", "100000"])
def test_nonsense_is_refused_at_boot(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    monkeypatch.setenv(f"ONRAMP_KAFKA_{name}", value)
    with pytest.raises(ValidationError):
        KafkaSettings()
