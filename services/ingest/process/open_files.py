"""Computes the HTTP connections that the limit of open files allows after other uses of files.

A process without a free descriptor cannot reconnect to Kafka, read its registry or load its
certificate until clients disconnect.
"""

import resource
from typing import Final

from services.ingest.settings import IngestSettings

#: Two producers with a connection to each broker, twice while they are replaced; clients that create topics;
#: listeners, logs, the registry, metrics of several workers.
_OWN: Final = 128
#: Connections to the port for operators.
ADMIN_CONNECTIONS: Final = 32


def connection_limit(settings: IngestSettings) -> int:
    """Return the maximum number of HTTP connections of this process; below 1 it cannot work."""
    return min(settings.max_connections, _limit() - _other_files(settings))


def raise_limit(settings: IngestSettings) -> None:
    """Raise the limit of open files to what the settings need, as far as the system allows."""
    needed = settings.max_connections + _other_files(settings)
    if _limit() < needed:
        hard = _known(resource.getrlimit(resource.RLIMIT_NOFILE)[1], needed)
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (min(needed, hard), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )


def require_files(settings: IngestSettings) -> None:
    """Raise `OSError` if the limit of open files leaves no HTTP connection."""
    raise_limit(settings)
    if connection_limit(settings) < 1:
        others = _other_files(settings)
        raise OSError(
            f"at most {_limit()} files may be open (ulimit -n) and {others} are for Kafka, syslog and the "
            f"like: allow {others + settings.max_connections}{_or_less(settings)}"
        )


def _or_less(settings: IngestSettings) -> str:
    return ", or lower ONRAMP_INGEST_SYSLOG_CONNECTIONS" if _takes_streams(settings) else ""


def _takes_streams(settings: IngestSettings) -> bool:
    return bool(settings.syslog_tcp_port or settings.syslog_tls_port)


def _other_files(settings: IngestSettings) -> int:
    return (
        _OWN
        + (ADMIN_CONNECTIONS if settings.admin_port else 0)
        + (settings.syslog_connections if _takes_streams(settings) else 0)
    )


def _limit() -> int:
    return _known(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 2**31)


def _known(limit: int, unlimited: int) -> int:
    return unlimited if limit == resource.RLIM_INFINITY else limit
