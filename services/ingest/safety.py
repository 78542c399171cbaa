"""What the gateway refuses to start with: all that is wrong at once, each with why and how to mend it.

What endangers others has an opt-out whose name says the risk; what would break a promise has none.
"""

from typing import Final

from services.ingest.auth.loopback import is_loopback
from services.ingest.settings import IngestSettings
from shared.registry import Registry
from shared.settings import KafkaSettings

_PRODUCTION_REPLICAS: Final = 2
_MAKE_KEY: Final = "Make one with `onramp keys new NAME` and write its hash into the registry's file"


class UnsafeSetupError(ValueError):
    """The gateway refuses to start like this."""


def refuse_unsafe(settings: IngestSettings, kafka: KafkaSettings, registry: Registry) -> None:
    """Raise `UnsafeSetupError` with everything that is unsafe about this setup."""
    registered = bool(registry.snapshot().keys)
    if settings.profile == "production":
        found = [*_production(settings, kafka, registered=registered), *_promises(settings, kafka)]
    else:
        found = _development(settings, registered=registered)
    if found:
        raise UnsafeSetupError("\n".join(f"- {each}" for each in found))


def _development(settings: IngestSettings, *, registered: bool) -> list[str]:
    if registered or settings.dev_key.get_secret_value() or is_loopback(settings.host):
        return []
    danger = f"It would listen on {_where(settings)} and has no API key: everybody could send."
    mend = f"{_MAKE_KEY}, or listen on 127.0.0.1 (ONRAMP_INGEST_HOST)"
    return _unless("ONRAMP_INGEST_ALLOW_ANONYMOUS", settings.allow_anonymous, danger, mend)


def _production(settings: IngestSettings, kafka: KafkaSettings, *, registered: bool) -> list[str]:
    """What endangers others."""
    found: list[str] = []
    if not registered:
        danger = "There is no API key: everybody could send events."
        found += _unless("ONRAMP_INGEST_ALLOW_ANONYMOUS", settings.allow_anonymous, danger, _MAKE_KEY)
    if not is_loopback(settings.host) and not settings.tls_cert_file:
        danger = f"HTTP would be in cleartext on {_where(settings)}: keys and events are read."
        mend = (
            "Give it a certificate (ONRAMP_INGEST_TLS_CERT_FILE), or listen on 127.0.0.1 "
            "(ONRAMP_INGEST_HOST) behind a proxy that speaks TLS"
        )
        found += _unless("ONRAMP_INGEST_ALLOW_CLEARTEXT_HTTP", settings.allow_cleartext_http, danger, mend)
    if _takes_syslog(settings) and _for_everybody(settings):
        danger = "Everybody who reaches its port could send syslog: it knows no keys."
        mend = "Name the networks that may send it in ONRAMP_INGEST_SYSLOG_NETWORKS"
        found += _unless("ONRAMP_INGEST_ALLOW_OPEN_SYSLOG", settings.allow_open_syslog, danger, mend)
    if not kafka.secured:
        danger = "Kafka is reached without TLS and a login: whoever reaches it reads and writes events."
        mend = "Set ONRAMP_KAFKA_SECURITY_PROTOCOL: SASL_SSL, or SSL with a certificate (docs/tls.md)"
        found += _unless("ONRAMP_INGEST_ALLOW_UNSECURED_KAFKA", settings.allow_unsecured_kafka, danger, mend)
    return found


def _promises(settings: IngestSettings, kafka: KafkaSettings) -> list[str]:
    """What would break our word, and so has no opt-out."""
    found = []
    if settings.dev_key.get_secret_value():
        found.append(
            "Production takes no development key: nothing revokes it. "
            "Unset ONRAMP_INGEST_DEV_KEY and use keys of the registry."
        )
    if kafka.min_insync < _PRODUCTION_REPLICAS:
        found.append(
            "With one in-sync replica a lost broker loses accepted events. "
            "Set ONRAMP_KAFKA_MIN_INSYNC of at least 2, with ONRAMP_KAFKA_REPLICATION above it."
        )
    return found


def _unless(setting: str, accepted: bool, danger: str, mend: str) -> list[str]:
    return [] if accepted else [f"{danger} {mend}, or accept the risk with {setting}=true."]


def _where(settings: IngestSettings) -> str:
    return settings.host or "every address"


def _for_everybody(settings: IngestSettings) -> bool:
    named = settings.networks and all(each.prefixlen for each in settings.networks)
    return not named and not is_loopback(settings.syslog_host)


def _takes_syslog(settings: IngestSettings) -> bool:
    """From whom it does not know: over TLS a client's certificate says who it is."""
    strangers_tls = settings.syslog_tls_port and not settings.tls_client_ca_file
    return bool(settings.syslog_udp_port or settings.syslog_tcp_port or strangers_tls)
