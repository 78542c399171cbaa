"""Without keys the gateway is for this machine alone, and a browser on it stands open to the whole web.

Any page may have its visitor's browser post to 127.0.0.1; the browser then names the page as the
`Origin`.  By DNS rebinding a page's own name leads to 127.0.0.1, and its requests count as its own;
then that name is the `Host`.  Programs send no Origin, and the address that they were given as Host.
"""

import re
from ipaddress import ip_address
from typing import Final

from services.ingest.asgi import Header
from shared.errors import FOREIGN_PAGE, UserError

_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::[0-9]*)?")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there, or is called so."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


class Doorstep:
    """Who may come in where nobody has a key."""

    def __init__(self, origins: frozenset[bytes], *, any_host: bool) -> None:
        self._origins = origins
        self._any_host = any_host

    def check(self, headers: list[Header]) -> None:
        """Raise `UserError` FOREIGN_PAGE for what a foreign web page had a browser send."""
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if not self._any_host and not (len(hosts) == 1 and _names_loopback(hosts[0])):
            raise UserError(FOREIGN_PAGE, "the Host header is not this machine's own address")
        for name, value in headers:
            if name == b"origin" and value not in self._origins and not _same(value, hosts):
                raise UserError(FOREIGN_PAGE, "the Origin header names a page that is not listed")


def _names_loopback(host: str) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and is_loopback(found[1])


def _same(origin: bytes, hosts: list[str]) -> bool:
    return origin.decode("latin-1").partition("://")[2] in hosts
