"""Which addresses may send syslog, and how much: there are no keys to go by, only addresses."""

import ipaddress
import logging
import time
from typing import Final

from services.ingest.auth.quotas import Quota, Quotas
from services.ingest.settings import IngestSettings

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES: Final = 10.0


class Sources:
    """Opens the syslog ports to the networks of the settings; without any to everybody."""

    def __init__(self, settings: IngestSettings, quotas: Quotas) -> None:
        self._settings = settings
        self._quotas = quotas
        self._all = quotas.limited(
            "syslog", settings.syslog_events_per_second, settings.syslog_bytes_per_second
        )
        self._networks = settings.networks
        self._said_at = -_SECONDS_BETWEEN_LINES

    def admits(self, peer: str) -> bool:
        """Whether `peer` may send."""
        if not self._networks or _is_within(peer, self._networks):
            return True
        self._say(peer)
        return False

    def wait(self, peer: str) -> float:
        """Seconds until `peer` may send more, 0 when it may now."""
        return max(self._all.wait(), self._of(peer).wait())

    def charge(self, peer: str, messages: int, size: int) -> None:
        """Count what `peer` sent."""
        self._all.charge(messages, size)
        self._of(peer).charge(messages, size)

    def _of(self, peer: str) -> Quota:
        settings = self._settings
        # No key is named so: it has a space.
        return self._quotas.limited(
            f"syslog {peer}",
            settings.syslog_source_events_per_second,
            settings.syslog_source_bytes_per_second,
        )

    def _say(self, peer: str) -> None:
        # Whoever sends can send a flood.
        now = time.monotonic()
        if now - self._said_at >= _SECONDS_BETWEEN_LINES:
            self._said_at = now
            logger.warning(
                "syslog from an address outside of ONRAMP_INGEST_SYSLOG_NETWORKS is refused",
                extra={"peer": peer},
            )


def _is_within(peer: str, networks: "tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]") -> bool:
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    # What listens on `::` sees IPv4 as ::ffff:10.0.0.1.
    plain = getattr(address, "ipv4_mapped", None) or address
    return any(plain in network for network in networks)
