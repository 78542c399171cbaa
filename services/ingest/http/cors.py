"""CORS by an allow-list of web pages that may send events from a browser.

Starlette's middleware is not used: it answers a preflight of an unlisted origin with text and 400
(here: the problem for any method but POST), and wraps the `send` of every request.
"""

from collections.abc import Mapping
from typing import Final

from services.ingest.asgi import Answer, Header

_NO_CONTENT: Final = 204
_ALLOWED_HEADERS: Final = b"authorization, content-type, content-encoding, traceparent"


class Cors:
    """The CORS headers for listed origins; browsers treat their absence as an error."""

    def __init__(self, origins: frozenset[bytes]) -> None:
        self._origins = origins

    def headers(self, headers: Mapping[bytes, bytes]) -> list[Header]:
        """Return the CORS headers of an answer to a request with these headers."""
        origin = headers.get(b"origin")
        if origin is None or not self._origins:
            return []
        vary = (b"vary", b"origin")
        if origin not in self._origins:
            return [vary]
        exposed = (b"access-control-expose-headers", b"retry-after")
        return [(b"access-control-allow-origin", origin), exposed, vary]

    def preflight(self, headers: Mapping[bytes, bytes]) -> Answer | None:
        """Return the answer to a preflight request; None for another request or an unlisted origin."""
        allowed = self.headers(headers)
        if b"access-control-request-method" not in headers or len(allowed) < 2:  # noqa: PLR2004 - vary alone
            return None
        allowed += [
            (b"access-control-allow-methods", b"POST"),
            (b"access-control-allow-headers", _ALLOWED_HEADERS),
            (b"access-control-max-age", b"600"),
        ]
        return Answer(_NO_CONTENT, b"text/plain", b"", allowed)
