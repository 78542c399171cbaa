"""Setups that the gateway refuses to start with: every risk is listed at once, with its fix."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from services.ingest.settings import IngestSettings
from services.ingest.unsafe_setups import UnsafeSetupError, require_safe
from shared.settings import KafkaSettings
from tests.fixtures.authority import Authority

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
    "allow_cleartext_http": "in cleartext",
    "allow_open_admin_port": "port for operators",
    "allow_open_syslog": "syslog",
    "allow_unsecured_kafka": "Kafka",
}


def refusals(kafka: KafkaSettings = SAFE, **settings: Any) -> list[str]:
    try:
        require_safe(IngestSettings(**settings), kafka)
    except UnsafeSetupError as error:
        return str(error).splitlines()
    return []


def test_a_laptop_needs_nothing() -> None:
    assert refusals(KafkaSettings()) == []


def test_production_tells_everything_at_once() -> None:
    told = refusals(KafkaSettings(), **OPEN, dev_key=SecretStr("x"))
    assert len(told) == len(RISKS) + 2  # and a development key, and one replica


@pytest.mark.parametrize("risk", RISKS)
def test_each_risk_is_refused_unless_its_own_setting_accepts_it(risk: str) -> None:
    taken = OPEN | dict.fromkeys(RISKS, True) | {risk: False}
    (told,) = refusals(SAFE, **taken)
    assert f"ONRAMP_INGEST_{risk.upper()}=true" in told
    assert RISKS[risk] in told
    assert refusals(SAFE, **taken | {risk: True}) == []


def test_setup_that_breaks_a_guarantee_has_no_opt_out() -> None:
    taken = OPEN | dict.fromkeys(RISKS, True)
    (replicas,) = refusals(KafkaSettings(min_insync=1), **taken)
    assert "ONRAMP_KAFKA_MIN_INSYNC" in replicas
    (key,) = refusals(SAFE, **taken, dev_key=SecretStr("x"))
    assert "ONRAMP_INGEST_DEV_KEY" in key


def test_production_on_loopback_behind_a_proxy_that_speaks_tls() -> None:
    settings = OPEN | {
        "host": "127.0.0.1",
        "syslog_host": "127.0.0.1",
        "admin_host": "::1",
        "allow_unsecured_kafka": True,
    }
    assert refusals(SAFE, **settings) == []
    assert refusals(SAFE, **settings | {"syslog_host": "::", "syslog_udp_port": 0}) == []


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
    assert len(refusals(kafka, **taken)) == told


@pytest.mark.parametrize(
    ("networks", "told"),
    [("10.1.0.0/16, 2001:db8::/32", 0), ("", 1), ("0.0.0.0/0", 1), ("10.1.0.0/16,::/0", 1)],
)
def test_syslog_beyond_loopback_names_its_senders(networks: str, told: int) -> None:
    taken = OPEN | dict.fromkeys(RISKS, True) | {"allow_open_syslog": False}
    assert len(refusals(SAFE, **taken, syslog_networks=networks)) == told


def test_a_gateway_with_a_certificate_is_not_cleartext(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("gateway")
    tls = {"tls_cert_file": issued.cert, "tls_key_file": issued.key}
    rest = dict.fromkeys(RISKS, True) | {"allow_cleartext_http": False}
    assert refusals(SAFE, **OPEN | rest | tls) == []


def test_syslog_over_tls_is_open_until_it_asks_for_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("gateway")
    rest = dict.fromkeys(RISKS, True) | {"allow_open_syslog": False, "syslog_udp_port": 0}
    tls = {"tls_cert_file": issued.cert, "tls_key_file": issued.key, "syslog_tls_port": 6514}
    (told,) = refusals(SAFE, **OPEN | rest | tls)
    assert "syslog" in told
    assert refusals(SAFE, **OPEN | rest | tls, tls_client_ca_file=authority.ca) == []
