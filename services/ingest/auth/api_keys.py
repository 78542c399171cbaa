"""Authenticates senders by API keys, stored as hashes and compared in constant time."""

import hashlib
import logging
from datetime import UTC, datetime
from typing import Final

from services.ingest.asgi import Header
from services.ingest.auth.loopback import KeylessAccess
from services.ingest.auth.quotas import UNLIMITED, Quota, Quotas
from shared.errors import UNAUTHENTICATED, UserError
from shared.registry import ApiKey, KeyHash, Registry
from shared.registry.bearer import bearer

logger = logging.getLogger(__name__)

DEV_KEY_ID: Final = "dev"


class Sender:
    """The sender of a request and its permissions."""

    __slots__ = ("key", "name", "quota")

    def __init__(self, name: str, key: ApiKey | None, quota: Quota) -> None:
        self.name = name
        #: None: a sender without a key, which may send everything.
        self.key = key
        self.quota = quota


ANONYMOUS: Final = Sender("anonymous", None, UNLIMITED)


class ApiKeys:
    """Authenticates senders by their key; while there is no key at all, admits what `keyless` admits.

    Without `keyless` (the default), a gateway without keys admits no sender: the last key may be revoked
    while the gateway runs, and a registry that was lost or belongs to another cluster has no keys.
    """

    def __init__(
        self, registry: Registry, quotas: Quotas, dev_key: str = "", *, keyless: KeylessAccess | None = None
    ) -> None:
        self._keyless = keyless
        self._has_warned = False
        self._registry = registry
        self._quotas = quotas
        digest = hashlib.sha256(dev_key.encode()).hexdigest()
        self._dev_keys = {DEV_KEY_ID: _dev(digest)} if dev_key else {}

    def authenticate(self, headers: list[Header]) -> Sender:
        """Return the sender of a request.

        Raises:
            UserError: UNAUTHENTICATED, always with the same text; CROSS_ORIGIN.
        """
        registered = self._registry.snapshot().keys
        authorizations = [value for name, value in headers if name == b"authorization"]
        if not authorizations and self.check_keyless(headers):
            return ANONYMOUS
        if self._keyless is None and not registered and not self._dev_keys:
            self._warn()
        if len(authorizations) != 1:
            raise _unauthenticated()
        given = bearer(authorizations[0])
        if given is None:
            raise _unauthenticated()
        name = given.name
        key = registered.get(name) or self._dev_keys.get(name)
        matches = given.matches([] if key is None else key.live_hashes(datetime.now(UTC)))
        if key is None or not any(matches):
            raise _unauthenticated()
        return Sender(name, key, self._quotas.for_key(name, key))

    def check_keyless(self, headers: list[Header]) -> bool:
        """Return whether this request needs no key.  Raises `UserError` CROSS_ORIGIN."""
        known = self._registry.is_read and self._registry.snapshot().keys
        if known or self._dev_keys or self._keyless is None:
            return False
        self._keyless.check(headers)
        return True

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "the registry has no key, so no sender is admitted: make one with `onramp keys new NAME` and "
                "apply its hash, or set ONRAMP_ALLOW_KEYLESS=true"
            )


def _dev(sha256: str) -> ApiKey:
    return ApiKey(hashes=(KeyHash(sha256=sha256),), destinations=("*",))


def _unauthenticated() -> UserError:
    return UserError(UNAUTHENTICATED, "no valid key was given")
