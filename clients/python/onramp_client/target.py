"""The gateway's address and route: URL prefix, TLS, and the proxies of the environment."""

import base64
import http.client
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

_PATH: Final = "/v1/events"


@dataclass(frozen=True, slots=True)
class Target:
    """The gateway's address, and the proxy before it, if there is one."""

    url: SplitResult
    proxy: SplitResult | None

    @classmethod
    def from_url(cls, url: str) -> "Target":
        """Parse a URL, and read HTTP_PROXY, HTTPS_PROXY and NO_PROXY.

        Raises:
            ValueError: it is not an http or https URL, or contains a name and password.
        """
        parts = _parse(url, "gateway's")
        if parts.username is not None:
            raise ValueError("the gateway's URL carries a name: give an API key instead, with `key`")
        proxy = None
        if not proxy_bypass(parts.netloc):
            proxy_url = getproxies().get(parts.scheme, "")
            if proxy_url:
                proxy = _parse(proxy_url if "://" in proxy_url else f"http://{proxy_url}", "proxy's")
        return cls(parts, proxy)

    @property
    def selector(self) -> str:
        """Return the target of the request line: the whole URL for a proxy, else the path."""
        path = self.url.path.rstrip("/") + _PATH
        return f"http://{self.url.netloc}{path}" if self.proxy and not self._is_tls else path

    @property
    def address(self) -> str:
        """Return the address for a log, without a user's name."""
        return f"{self.url.scheme}://{self.url.netloc}{self.url.path}"

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that the proxy needs in each request."""
        return _authorization(self.proxy) if self.proxy and not self._is_tls else {}

    def connection(self, timeout: float, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
        """Return an unconnected connection."""
        first = self.proxy or self.url
        host = first.hostname or ""
        if not self._is_tls:
            return http.client.HTTPConnection(host, first.port or 80, timeout=timeout)
        port = first.port or (80 if self.proxy else 443)
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        if self.proxy:
            connection.set_tunnel(
                self.url.hostname or "", self.url.port or 443, headers=_authorization(self.proxy)
            )
        return connection

    @property
    def _is_tls(self) -> bool:
        return self.url.scheme == "https"


def _authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def _parse(url: str, whose: str) -> SplitResult:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == -1:
        without_user = url.rpartition("@")[2]
        raise ValueError(f"{without_user!r} is no http or https URL: the {whose} looks like http://HOST:PORT")
    return parts
