"""What the gateway refuses to start with: everything at once, each with a way out."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from services.ingest.safety import UnsafeSetupError, require_safe
from services.ingest.settings import IngestSettings
from shared.registry import Registry
from shared.registry.memory import MemoryRegistry
from shared.settings import KafkaSettings
from tests.fixtures.authority import Authority
from tests.unit.ingest.test_senders import registry

KEYED, BARE = MemoryRegistry(registry()), MemoryRegistry()
SAFE = KafkaSettings(min_insync=2, replication=3)
OPEN: dict[str, Any] = {
    "profile": "production",
    "host": "0.0.0.0",
    "syslog_host": "::",
    "syslog_udp_port": 514,
    "admin_host": "0.0.0.0",
    "admin_port": 9000,
}
RISKS = {
    "allow_anonymous": "API key",
    "allow_cleartext_http": "in cleartext",
    "allow_open_admin_port": "port for operators",
    "allow_open_syslog": "syslog",
    "allow_unsecured_kafka": "Kafka",
}


def refusals(keys: Registry, kafka: KafkaSettings = SAFE, **settings: Any) -> list[str]:
    try:
        require_safe(IngestSettings(**settings), kafka, keys)
    except UnsafeSetupError as error:
        return str(error).splitlines()
    return []


def test_a_laptop_needs_nothing() -> None:
    assert refusals(BARE, KafkaSettings()) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "10.1.1.1", "gateway"])
def test_without_keys_it_listens_on_loopback_alone(host: str) -> None:
    (told,) = refusals(BARE, host=host)
    for word in ("everybody", "onramp keys new", "ONRAMP_INGEST_HOST", "ONRAMP_INGEST_ALLOW_ANONYMOUS"):
        assert word in told
    assert refusals(KEYED, host=host) == []
    assert refusals(BARE, host=host, dev_key=SecretStr("x")) == []
    assert refusals(BARE, host=host, allow_anonymous=True) == []


def test_production_tells_everything_at_once() -> None:
    told = refusals(BARE, KafkaSettings(), **OPEN, dev_key=SecretStr("x"))
    assert len(told) == len(RISKS) + 2  # and a development key, and one replica


@pytest.mark.parametrize("risk", RISKS)
def test_each_risk_is_told_and_taken_by_its_name(risk: str) -> None:
    taken = OPEN | dict.fromkeys(RISKS, True) | {risk: False}
    (told,) = refusals(BARE, SAFE, **taken)
    assert f"ONRAMP_INGEST_{risk.upper()}=true" in told
    assert RISKS[risk] in told
    assert refusals(BARE, SAFE, **taken | {risk: True}) == []


def test_what_breaks_a_promise_has_no_opt_out() -> None:
    taken = OPEN | dict.fromkeys(RISKS, True)
    (replicas,) = refusals(BARE, KafkaSettings(min_insync=1), **taken)
    assert "ONRAMP_KAFKA_MIN_INSYNC" in replicas
    (key,) = refusals(BARE, SAFE, **taken, dev_key=SecretStr("x"))
    assert "ONRAMP_INGEST_DEV_KEY" in key


def test_production_on_loopback_behind_a_proxy_that_speaks_tls() -> None:
    settings = OPEN | {
        "host": "127.0.0.1",
        "syslog_host": "127.0.0.1",
        "admin_host": "::1",
        "allow_unsecured_kafka": True,
    }
    assert refusals(KEYED, SAFE, **settings) == []
    assert refusals(KEYED, SAFE, **settings | {"syslog_host": "::", "syslog_udp_port": 0}) == []


@pytest.mark.parametrize(
    ("protocol", "files", "told"),
    [
        ("PLAINTEXT", (), 1),
        ("SASL_PLAINTEXT", ("password_file",), 1),
        ("SSL", (), 1),
        ("SSL", ("cert_file", "key_file"), 0),
        ("SASL_SSL", ("password_file",), 0),
    ],
)
def test_kafka_is_secured_by_tls_and_a_login(
    tmp_path: Path, protocol: str, files: tuple[str, ...], told: int
) -> None:
    given: dict[str, Any] = {name: tmp_path / name for name in files}
    for file in given.values():
        file.write_text("x")
    given["username"] = "gateway" if "SASL" in protocol else ""
    kafka = KafkaSettings.model_construct(min_insync=2, security_protocol=protocol, **given)
    taken = OPEN | dict.fromkeys(RISKS, True) | {"allow_unsecured_kafka": False}
    assert len(refusals(KEYED, kafka, **taken)) == told


@pytest.mark.parametrize(
    ("networks", "told"),
    [("10.1.0.0/16, 2001:db8::/32", 0), ("", 1), ("0.0.0.0/0", 1), ("10.1.0.0/16,::/0", 1)],
)
def test_syslog_beyond_loopback_names_its_senders(networks: str, told: int) -> None:
    taken = OPEN | dict.fromkeys(RISKS, True) | {"allow_open_syslog": False}
    assert len(refusals(KEYED, SAFE, **taken, syslog_networks=networks)) == told


def test_a_gateway_with_a_certificate_is_not_cleartext(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("gateway")
    tls = {"tls_cert_file": issued.cert, "tls_key_file": issued.key}
    rest = dict.fromkeys(RISKS, True) | {"allow_cleartext_http": False}
    assert refusals(KEYED, SAFE, **OPEN | rest | tls) == []


def test_syslog_over_tls_is_open_until_it_asks_for_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("gateway")
    rest = dict.fromkeys(RISKS, True) | {"allow_open_syslog": False, "syslog_udp_port": 0}
    tls = {"tls_cert_file": issued.cert, "tls_key_file": issued.key, "syslog_tls_port": 6514}
    (told,) = refusals(KEYED, SAFE, **OPEN | rest | tls)
    assert "syslog" in told
    assert refusals(KEYED, SAFE, **OPEN | rest | tls, tls_client_ca_file=authority.ca) == []
