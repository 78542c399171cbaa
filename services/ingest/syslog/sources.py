"""Permissions and quotas of syslog senders by address: syslog has no keys."""

import ipaddress
import logging
import time
from typing import Final

from services.ingest.auth.quotas import Quota, Quotas
from services.ingest.settings import IngestSettings

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES: Final = 10.0


class Sources:
    """Admits addresses in the configured networks (all, if none is configured), with a quota per address."""

    def __init__(self, settings: IngestSettings, quotas: Quotas) -> None:
        self._settings = settings
        self._quotas = quotas
        self._all = quotas.with_limits(
            "syslog", settings.syslog_events_per_second, settings.syslog_bytes_per_second
        )
        self._networks = settings.networks
        self._logged_at = -_SECONDS_BETWEEN_LINES

    def admits(self, peer: str) -> bool:
        """Return whether `peer` may send; log it if not."""
        if not self._networks or _is_within(peer, self._networks):
            return True
        self._log_rejected(peer)
        return False

    def delay(self, peer: str) -> float:
        """Return the seconds until `peer` may send more; 0 for now."""
        return max(self._all.delay(), self._of(peer).delay())

    def charge(self, peer: str, messages: int, size: int) -> None:
        """Count messages and bytes that `peer` sent."""
        self._all.charge(messages, size)
        self._of(peer).charge(messages, size)

    def _of(self, peer: str) -> Quota:
        settings = self._settings
        # The space makes it different from any key's name.
        return self._quotas.with_limits(
            f"syslog {peer}",
            settings.syslog_source_events_per_second,
            settings.syslog_source_bytes_per_second,
        )

    def _log_rejected(self, peer: str) -> None:
        # At most one line in ten seconds: senders could flood the log.
        now = time.monotonic()
        if now - self._logged_at >= _SECONDS_BETWEEN_LINES:
            self._logged_at = now
            logger.warning(
                "syslog from an address outside of ONRAMP_INGEST_SYSLOG_NETWORKS is rejected",
                extra={"peer": peer},
            )


def _is_within(peer: str, networks: "tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]") -> bool:
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    # A socket on `::` gets IPv4 addresses as ::ffff:10.0.0.1.
    plain = getattr(address, "ipv4_mapped", None) or address
    return any(plain in network for network in networks)
