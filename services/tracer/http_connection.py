"""One HTTP connection to a gateway or a writer, with a timeout for each read."""

import http.client
from urllib.parse import urlsplit


def connection_to(url: str, seconds: float) -> http.client.HTTPConnection:
    """Return a connection to the host of a URL, not opened; https verifies the certificate."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.netloc, timeout=seconds)
