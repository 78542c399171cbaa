"""Rejects unsafe setups at the start: all faults at once, each with its reason and fix.

A fault that endangers others has an opt-out whose name says the risk; a fault that would break a
promise has none.
"""

from typing import Final

from services.ingest.auth.loopback import is_loopback
from services.ingest.settings import IngestSettings
from shared.settings import KafkaSettings

_PRODUCTION_REPLICAS: Final = 2


class UnsafeSetupError(ValueError):
    """The gateway does not start with this setup."""


def require_safe(settings: IngestSettings, kafka: KafkaSettings) -> None:
    """Raise `UnsafeSetupError` with every fault of a setup for production.

    Missing keys are not a fault: without keys no sender is admitted unless ONRAMP_ALLOW_KEYLESS is set.
    """
    if settings.profile != "production":
        return
    faults = [*_risks(settings, kafka), *_broken_promises(settings, kafka)]
    if faults:
        raise UnsafeSetupError("\n".join(f"- {each}" for each in faults))


def _risks(settings: IngestSettings, kafka: KafkaSettings) -> list[str]:
    """Return the risks to others in production that were not accepted."""
    faults: list[str] = []
    if not is_loopback(settings.host) and not settings.tls_cert_file:
        danger = f"HTTP would be in cleartext on {_where(settings)}: keys and events are read."
        fix = (
            "Give it a certificate (ONRAMP_INGEST_TLS_CERT_FILE), or listen on 127.0.0.1 "
            "(ONRAMP_INGEST_HOST) behind a proxy that speaks TLS"
        )
        faults += _unless("ONRAMP_INGEST_ALLOW_CLEARTEXT_HTTP", settings.allow_cleartext_http, danger, fix)
    if settings.admin_port and not is_loopback(settings.admin_host):
        where = settings.admin_host or "every address"
        danger = f"The port for operators would be in cleartext and without keys on {where}."
        fix = "Listen on 127.0.0.1 (ONRAMP_INGEST_ADMIN_HOST)"
        faults += _unless("ONRAMP_INGEST_ALLOW_OPEN_ADMIN_PORT", settings.allow_open_admin_port, danger, fix)
    if _takes_syslog(settings) and _for_everybody(settings):
        danger = "Anyone who reaches the syslog port could send: syslog has no keys."
        fix = "Name the networks that may send it in ONRAMP_INGEST_SYSLOG_NETWORKS"
        faults += _unless("ONRAMP_INGEST_ALLOW_OPEN_SYSLOG", settings.allow_open_syslog, danger, fix)
    if not kafka.secured:
        danger = "Kafka is used without TLS and a login: anyone who reaches it reads and writes events."
        fix = "Set ONRAMP_KAFKA_SECURITY_PROTOCOL: SASL_SSL, or SSL with a certificate (docs/tls.md)"
        faults += _unless("ONRAMP_INGEST_ALLOW_UNSECURED_KAFKA", settings.allow_unsecured_kafka, danger, fix)
    return faults


def _broken_promises(settings: IngestSettings, kafka: KafkaSettings) -> list[str]:
    """Return the faults that would break a promise to senders, which have no opt-out."""
    faults = []
    if settings.dev_key.get_secret_value():
        faults.append(
            "Production takes no development key: nothing revokes it. "
            "Unset ONRAMP_INGEST_DEV_KEY and use keys of the registry."
        )
    if kafka.min_insync < _PRODUCTION_REPLICAS:
        faults.append(
            "With one in-sync replica a lost broker loses accepted events. "
            "Set ONRAMP_KAFKA_MIN_INSYNC of at least 2, with ONRAMP_KAFKA_REPLICATION above it."
        )
    return faults


def _unless(setting: str, accepted: bool, danger: str, fix: str) -> list[str]:
    return [] if accepted else [f"{danger} {fix}, or accept the risk with {setting}=true."]


def _where(settings: IngestSettings) -> str:
    return settings.host or "every address"


def _for_everybody(settings: IngestSettings) -> bool:
    named = settings.networks and all(each.prefixlen for each in settings.networks)
    return not named and not is_loopback(settings.syslog_host)


def _takes_syslog(settings: IngestSettings) -> bool:
    """Return whether unknown senders can send syslog: over TLS a client certificate may identify them."""
    anonymous_tls = settings.syslog_tls_port and not settings.tls_client_ca_file
    return bool(settings.syslog_udp_port or settings.syslog_tcp_port or anonymous_tls)
