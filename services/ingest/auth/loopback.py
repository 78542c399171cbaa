"""Access to a gateway without keys: for local programs, not for foreign web pages in local browsers.

Any page can make its visitor's browser post to 127.0.0.1; the browser then names the page as the
`Origin`.  With DNS rebinding a page's own name resolves to 127.0.0.1, and its requests count as same-origin;
then that name is the `Host`. Programs send no Origin, and their configured address as Host.
"""

import re
from ipaddress import ip_address
from typing import Final

from services.ingest.asgi import Header
from shared.errors import CROSS_ORIGIN, UserError

_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::[0-9]*)?")


def is_loopback(host: str) -> bool:
    """Return whether `host` is `localhost` or a loopback address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


class KeylessAccess:
    """The rule for requests to a gateway without keys: by their Host and Origin headers."""

    def __init__(self, origins: frozenset[bytes], *, any_host: bool) -> None:
        self._origins = origins
        self._any_host = any_host

    def check(self, headers: list[Header]) -> None:
        """Raise `UserError` CROSS_ORIGIN for a request that a foreign web page made a browser send."""
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if not self._any_host and not (len(hosts) == 1 and _names_loopback(hosts[0])):
            raise UserError(CROSS_ORIGIN, "the Host header is not this machine's own address")
        for name, value in headers:
            if name == b"origin" and value not in self._origins and not _is_same_origin(value, hosts):
                raise UserError(CROSS_ORIGIN, "the Origin header names a page that is not listed")


def _names_loopback(host: str) -> bool:
    match = _HOST.fullmatch(host)
    return match is not None and is_loopback(match[1])


def _is_same_origin(origin: bytes, hosts: list[str]) -> bool:
    return origin.decode("latin-1").partition("://")[2] in hosts
