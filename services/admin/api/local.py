"""Whether a request comes from a program of this machine, and not from a web page in a browser.

A page can make a browser call loopback, by a name of its own that resolves to it (DNS rebinding) or from
another origin: the first has a foreign `Host`, the second an `Origin`.  Pages of this service have its own.
"""

from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers

_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


def is_local(headers: Headers, scheme: str = "") -> bool:
    """Return whether the headers are those of a program of this machine.

    With a `scheme` (http or https) also those of a page of this service, whose origin is exactly its own.
    """
    hosts = headers.getlist("host")
    names = {host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host for host in hosts}
    origins = set(headers.getlist("origin")) - ({f"{scheme}://{hosts[0]}"} if scheme and hosts else set())
    return len(hosts) == 1 and names <= _HOSTS and not origins


def is_loopback(host: str) -> bool:
    """Return whether `host` is reachable from this machine alone."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
