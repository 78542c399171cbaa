"""Who sends: API keys, known only as hashes, compared in constant time as bytes.

A key is ``onramp_<id>_<secret>``: the id finds its hashes without a search, the secret is
256 random bits, so one SHA-256 is enough (nobody can guess what a slow hash would protect).
"""

import hashlib
import hmac
import re
from datetime import UTC, datetime
from typing import Final

from services.ingest.asgi import Header
from services.ingest.auth.loopback import Doorstep
from services.ingest.auth.quotas import UNLIMITED, Quota, Quotas
from shared.errors import UNAUTHENTICATED, UserError
from shared.registry import ApiKey, KeyHash, Registry

_BEARER: Final = re.compile(rb"[Bb]earer (onramp_([a-z0-9][a-z0-9-]{0,31})_[A-Za-z0-9_-]{20,200})")
DEV_KEY_ID: Final = "dev"
_NOBODY: Final = bytes(32)


class Sender:
    """Who sends a request, and what may be sent."""

    __slots__ = ("key", "name", "quota")

    def __init__(self, name: str, key: ApiKey | None, quota: Quota) -> None:
        self.name = name
        #: None: the development profile without keys, where everything goes.
        self.key = key
        self.quota = quota


ANONYMOUS: Final = Sender("anonymous", None, UNLIMITED)


class ApiKeys:
    """Opens the door to those who have a key; while there is none to those who pass the doorstep.

    Without a doorstep no keys means a closed door: the last one may be revoked while it runs.
    """

    def __init__(
        self, registry: Registry, quotas: Quotas, dev_key: str = "", *, doorstep: Doorstep | None = None
    ) -> None:
        self._doorstep = doorstep
        self._registry = registry
        self._quotas = quotas
        digest = hashlib.sha256(dev_key.encode()).hexdigest()
        self._dev_keys = {DEV_KEY_ID: _dev(digest)} if dev_key else {}

    def identify(self, headers: list[Header]) -> Sender:
        """The sender of a request.

        Raises `UserError`: UNAUTHENTICATED, always with the same words, or FOREIGN_PAGE.
        """
        registered = self._registry.snapshot().keys
        given = [value for name, value in headers if name == b"authorization"]
        if not given and self.guard(headers):
            return ANONYMOUS
        if len(given) != 1:
            raise _refused()
        bearer = _BEARER.fullmatch(given[0])
        if not bearer:
            raise _refused()
        name = bearer[2].decode()
        key = registered.get(name) or self._dev_keys.get(name)
        digest = hashlib.sha256(bearer[1]).digest()
        hashes = [] if key is None else key.live_hashes(datetime.now(UTC))
        # All are compared, a dummy among them, whichever matches.
        matches = [hmac.compare_digest(digest, each) for each in [*hashes, _NOBODY]]
        if key is None or not any(matches):
            raise _refused()
        return Sender(name, key, self._quotas.of(name, key))

    def guard(self, headers: list[Header]) -> bool:
        """Whether nobody needs a key.  Raises `UserError` FOREIGN_PAGE."""
        if self._registry.snapshot().keys or self._dev_keys or self._doorstep is None:
            return False
        self._doorstep.check(headers)
        return True


def _dev(sha256: str) -> ApiKey:
    return ApiKey(hashes=(KeyHash(sha256=sha256),), destinations=("*",))


def _refused() -> UserError:
    return UserError(UNAUTHENTICATED, "no valid key was given")
