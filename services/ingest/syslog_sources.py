"""Which addresses may send syslog: it knows no keys, so the network is all there is to go by."""

import ipaddress
import logging
import time
from typing import Final

from services.ingest.settings import IngestSettings

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES: Final = 10.0


class Sources:
    """Opens the syslog ports to the networks of the settings; without any to everybody."""

    def __init__(self, settings: IngestSettings) -> None:
        self._networks = settings.networks
        self._said_at = -_SECONDS_BETWEEN_LINES

    def admits(self, peer: str) -> bool:
        """Whether `peer` may send."""
        if not self._networks or _is_within(peer, self._networks):
            return True
        self._say(peer)
        return False

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
