"""A wrong setting is a sentence with its variable's name, and never its value."""

import logging

import pytest

from services.admin.settings import AdminSettings
from services.ingest.settings import IngestSettings
from services.writer.settings import WriterSettings
from shared.read_settings import WrongSettingsError, read_settings, warn_of_unknown
from shared.settings import KafkaSettings

CANARY = "canary-4711"


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("ONRAMP_WRITER_HTTP_PORT", "-5", "ONRAMP_WRITER_HTTP_PORT: Input should be greater than"),
        ("ONRAMP_WRITER_HTTP_PORT", CANARY, "ONRAMP_WRITER_HTTP_PORT: Input should be a valid integer"),
        ("ONRAMP_WRITER_DATABASES", "{" + CANARY, "ONRAMP_WRITER_… is not the JSON"),
        ("ONRAMP_WRITER_DATABASES", f'{{"a":{{"dns":"{CANARY}"}}}}', "ONRAMP_WRITER_DATABASES, at a"),
    ],
)
def test_a_wrong_setting_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(WrongSettingsError) as raised:
        read_settings(WriterSettings)
    assert sentence in str(raised.value)
    assert CANARY not in str(raised.value)
    assert "docs/settings.md" in str(raised.value)


def test_all_wrong_settings_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRAMP_INGEST_PORT", "high")
    monkeypatch.setenv("ONRAMP_INGEST_WORKERS", "0")
    with pytest.raises(WrongSettingsError) as raised:
        read_settings(IngestSettings)
    assert [line.partition(":")[0] for line in str(raised.value).splitlines()] == [
        "ONRAMP_INGEST_PORT",
        "ONRAMP_INGEST_WORKERS",
    ]


def test_settings_that_do_not_go_together_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRAMP_KAFKA_CERT_FILE", "client.pem")
    with pytest.raises(WrongSettingsError, match=r"ONRAMP_KAFKA_\*: "):
        read_settings(KafkaSettings)


def test_a_misspelt_variable_is_logged_with_what_was_perhaps_meant(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ONRAMP_INGEST_WORKER", CANARY)
    monkeypatch.setenv("ONRAMP_INGEST_PORT", "8080")
    with caplog.at_level(logging.WARNING):
        warn_of_unknown(IngestSettings, KafkaSettings)
    assert [vars(record)["variable"] for record in caplog.records] == ["ONRAMP_INGEST_WORKER"]
    assert vars(caplog.records[0])["perhaps"] == "ONRAMP_INGEST_WORKERS"
    assert CANARY not in caplog.text


@pytest.mark.parametrize("name", ["URL", "KEY", "KEY_FILE"])
def test_a_variable_of_the_command_line_is_no_misspelt_setting(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(f"ONRAMP_ADMIN_{name}", "x")
    with caplog.at_level(logging.WARNING):
        warn_of_unknown(AdminSettings, KafkaSettings)
    assert caplog.records == []
