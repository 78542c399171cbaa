"""The addresses of services: a host name with several addresses means all of them."""

import asyncio
import socket
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from services.admin.figures.http_get import Address, port_of

RESOLVE_SECONDS: Final = 30.0
_TIMEOUT_SECONDS: Final = 2.0
#: Maximum addresses of one host.
_MAX_ADDRESSES: Final = 64


class Addresses:
    """The current addresses of some URLs; the last addresses of an unresolvable name stay in use."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        self._known: dict[str, list[str]] = {}
        self._due = 0.0
        #: By URL, why its host has no address.
        self.unresolved: dict[str, str] = {}

    async def current(self) -> list[Address]:
        """Return the addresses, resolved at most `RESOLVE_SECONDS` ago."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + RESOLVE_SECONDS
            await asyncio.gather(*(self._resolve(url) for url in self._urls))
        return [Address(url, ip) for url in self._urls for ip in self._known.get(url, ())]

    async def _resolve(self, url: str) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                result = await asyncio.get_running_loop().getaddrinfo(
                    urlsplit(url).hostname, port_of(url), type=socket.SOCK_STREAM
                )
        except (OSError, TimeoutError):
            if url not in self._known:
                self.unresolved[url] = "its host name has no address"
            self._due = 0.0  # not known for half a minute: asked for again
            return
        self.unresolved.pop(url, None)
        self._known[url] = one_family([(family, str(where[0])) for family, *_, where in result])


def one_family(result: Sequence[tuple[int, str]]) -> list[str]:
    """Return the IPv4 addresses, or the IPv6 ones if there is no other: most hosts have both."""
    old = [ip for family, ip in result if family == socket.AF_INET]
    return list(dict.fromkeys(old or [ip for _, ip in result]))[:_MAX_ADDRESSES]
