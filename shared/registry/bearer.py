"""The credentials of a request: a key as `Authorization: Bearer`, compared in constant time.

A key is ``onramp_<id>_<secret>``: the id finds its hashes without a search, the secret is
256 random bits, so one SHA-256 is enough (a slow hash only protects guessable secrets).
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_BEARER: Final = re.compile(rb"[Bb]earer (onramp_([a-z0-9][a-z0-9-]{0,31})_[A-Za-z0-9_-]{20,200})")
_DUMMY_HASH: Final = bytes(32)


class Bearer(NamedTuple):
    """A presented key: its claimed id and its SHA-256."""

    name: str
    digest: bytes

    def matches(self, hashes: Iterable[bytes]) -> list[bool]:
        """Return for each hash whether it matches this key.

        All hashes and a dummy are always compared, so that the time leaks nothing.
        """
        return [hmac.compare_digest(self.digest, each) for each in [*hashes, _DUMMY_HASH]]


def bearer(authorization: bytes) -> Bearer | None:
    """Return the key of an Authorization header; None if it has none."""
    found = _BEARER.fullmatch(authorization)
    return None if found is None else Bearer(found[2].decode(), hashlib.sha256(found[1]).digest())
