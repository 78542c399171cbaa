"""CORS by allow-list: which web pages may send events from a browser."""

from collections.abc import Mapping
from typing import Final

from services.ingest.asgi import Answer, Header

_NO_CONTENT: Final = 204
_ALLOWED_HEADERS: Final = b"authorization, content-type, content-encoding, traceparent"


class Cors:
    """Answers for the origins of the list; says nothing to all others, which refuses them."""

    def __init__(self, origins: frozenset[bytes]) -> None:
        self._origins = origins

    def headers(self, headers: Mapping[bytes, bytes]) -> list[Header]:
        """What an answer says to the page that asked."""
        origin = headers.get(b"origin")
        if origin is None or not self._origins:
            return []
        vary = (b"vary", b"origin")
        if origin not in self._origins:
            return [vary]
        exposed = (b"access-control-expose-headers", b"retry-after")
        return [(b"access-control-allow-origin", origin), exposed, vary]

    def preflight(self, headers: Mapping[bytes, bytes]) -> Answer | None:
        """The answer to a preflight request; None if it is none, or from a page not listed."""
        allowed = self.headers(headers)
        if b"access-control-request-method" not in headers or len(allowed) < 2:  # noqa: PLR2004 - vary alone
            return None
        allowed += [
            (b"access-control-allow-methods", b"POST"),
            (b"access-control-allow-headers", _ALLOWED_HEADERS),
            (b"access-control-max-age", b"600"),
        ]
        return Answer(_NO_CONTENT, b"text/plain", b"", allowed)
