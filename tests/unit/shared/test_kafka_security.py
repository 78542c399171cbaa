"""Kafka security settings contain no secret; each use reads the file's current password."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from shared.kafka_security import Brokers, KafkaSecurity, Password, SecretError
from shared.settings import KafkaSettings

SECRET = "correct-horse"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    return file


def _security(file: Path, **more: Any) -> KafkaSecurity:
    return KafkaSecurity(**{"protocol": "SASL_SSL", "username": "me", "password_file": file, **more})


def test_nothing_that_travels_holds_the_password(file: Path) -> None:
    brokers = Brokers("a:1", _security(file).check())
    said = [repr(brokers), str(brokers), repr(pickle.dumps(brokers)), repr(brokers.aiokafka())]
    assert not any(SECRET in each for each in said)


def test_a_password_is_what_the_file_says_now(file: Path) -> None:
    password = Password.of(file)
    assert (str.__str__(password), password.encode()) == (SECRET, SECRET.encode())
    file.write_text("another\r\n")
    assert password.encode("utf-8") == b"another"


@pytest.mark.parametrize("text", ["", "\n", 'a"b', "a\\b", "a\nb", "a\tb"])
def test_a_password_that_not_all_clients_can_take_is_refused(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(SecretError, match="choose another one") as refused:
        _security(file).check()
    assert "a" not in str(refused.value).replace(str(file), "")[:4]


def test_a_change_of_the_file_is_another_moment(file: Path) -> None:
    security = _security(file)
    before = security.files_version
    assert security.files_version == before
    fresh = file.with_suffix(".fresh")
    fresh.write_text("another")
    fresh.rename(file)
    assert security.files_version != before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security_protocol": "SASL_SSL", "username": "me"}, "needs ONRAMP_KAFKA_USERNAME and"),
        ({"username": "me"}, "of no use with PLAINTEXT"),
        ({"security_protocol": "SSL", "cert_file": "a"}, "go together"),
        ({"ca_file": "a"}, "certificates are of no use with PLAINTEXT"),
        ({"security_protocol": "SASL_SSL", "username": "me", "password_file": "none"}, "cannot be read"),
        ({"security_protocol": "TLS"}, "SASL_SSL"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        KafkaSettings(**given)


def test_files_are_named_by_their_full_paths(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    settings = KafkaSettings(security_protocol="SASL_SSL", username="me", password_file=Path(file.name))
    assert settings.brokers.security.password_file == file


def test_kafka_connect_is_given_references_of_secrets(file: Path) -> None:
    (key := file.with_name("key.pem")).write_text(SECRET)
    security = _security(file, ca_file=Path("/ca.pem"), cert_file=Path("/own/cert.pem"), key_file=key)
    assert security.connect() == {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "${directory:/own:cert.pem}",
        "ssl.keystore.key": f"${{directory:{key.parent}:key.pem}}",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="${env:ONRAMP_CONNECT_KAFKA_PASSWORD}";',
    }
    plain = _security(file, mechanism="PLAIN").connect()["sasl.jaas.config"]
    assert plain.startswith("org.apache.kafka.common.security.plain.PlainLoginModule required ")
    assert KafkaSecurity().connect() == {}


def test_default_security_settings_connect_in_plaintext() -> None:
    brokers = KafkaSettings(bootstrap="a:1").brokers
    assert brokers.aiokafka() == {"bootstrap_servers": "a:1", "security_protocol": "PLAINTEXT"}
    assert brokers.librdkafka() == {"bootstrap.servers": "a:1"}
