"""Identifies callers: an operator by a key, or, if allowed without operators, a program of this machine.

A key is looked up by its name and compared in constant time, as in the gateway.  Without permission
(ONRAMP_ALLOW_KEYLESS) a service without operators refuses everything: a lost registry has none.  With
it, the first registry that is read decides: revoking the last operator closes the service.
"""

import hashlib
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hmac import compare_digest
from typing import Final, NamedTuple

from starlette.datastructures import Headers

from services.admin.api.local import is_local
from shared.errors import BAD_QUERY, NOT_ALLOWED, NOT_LOCAL, UNAUTHENTICATED, UserError
from shared.registry import Registry, Role, Snapshot
from shared.registry.bearer import Bearer, bearer

_ROLES: Final[tuple[Role, ...]] = ("viewer", "operator", "admin")
_ALL: Final = "*"


class Caller(NamedTuple):
    """The caller; `name` is None for a program of this machine (no key, or the development key)."""

    name: str | None
    role: Role
    events: tuple[str, ...] = (_ALL,)

    @property
    def only(self) -> list[str] | None:
        """Return the patterns of the event names that it sees, or None if it sees all events."""
        return None if _ALL in self.events else sorted(self.events)

    def sees(self, *event_names: str) -> bool:
        """Return whether it sees events of all these names; without names, whether it sees all events."""
        if self.only is None:
            return True
        return bool(event_names) and all(
            any(fnmatchcase(name, pattern) for pattern in self.events) for name in event_names
        )

    def may(self, role: Role) -> bool:
        """Return whether its role includes this role."""
        return _ROLES.index(self.role) >= _ROLES.index(role)

    def acting(self, said: str | None) -> str:
        """Return the actor: the holder of the key, or the name `said` if callers have no key."""
        if self.name is None and not said:
            raise UserError(BAD_QUERY, "actor: name the actor, because there are no keys here")
        return self.name or str(said)


#: A program of this machine, which may do everything.
LOCAL: Final = Caller(None, "admin")
#: A caller of the probes, without a key.
STRANGER: Final = Caller("", "viewer", ())


class Operators:
    """Identifies callers by the registry's current snapshot."""

    def __init__(self, registry: Registry, *, keyless: bool = False, dev_key: str = "") -> None:
        """Take the sources of admission.

        Args:
            registry: its operators are admitted.
            keyless: programs of this machine are admitted while there is no operator.
            dev_key: its holder is admitted as a program of this machine.
        """
        self._registry = registry
        self._may_be_keyless = keyless
        self._keyless: bool | None = None
        self._dev_hashes = [hashlib.sha256(dev_key.encode()).digest()] if dev_key else []
        self.see()

    def see(self) -> None:
        """Decide after the first read of the registry whether the service is open without keys."""
        if self._keyless is None and self._registry.is_read:
            self._keyless = self._may_be_keyless and not self._registry.snapshot().operators

    @property
    def is_known(self) -> bool:
        """Return whether the registry was read; no caller is admitted before."""
        return self._registry.is_read

    def personal(self, event_name: str | None) -> tuple[str, ...]:
        """Return pointers to the personal fields of an event type, whose shapes are hidden too.

        An unknown name has the personal fields of all types.
        """
        return self._registry.snapshot().personal_of(event_name)

    def registry(self) -> Snapshot:
        """Return the registry in force. Raises `InfrastructureError` REGISTRY_UNREAD."""
        return self._registry.snapshot()

    def caller(self, headers: Headers) -> Caller:
        """Return the caller that sent these headers.

        Raises:
            UserError: UNAUTHENTICATED, always with the same text; NOT_ALLOWED, a sender's key; NOT_LOCAL.
            InfrastructureError: REGISTRY_UNREAD.
        """
        self.see()
        given = headers.getlist("authorization")
        found = bearer(given[0].encode("latin-1")) if len(given) == 1 else None
        if found is not None and any(found.matches(self._dev_hashes)):
            return LOCAL
        if (local := self.keyless_caller(headers)) is not None:
            return local
        if found is None:
            raise _unauthenticated()
        return self._holder(found)

    def keyless_caller(self, headers: Headers, scheme: str = "") -> Caller | None:
        """Return the caller without a key if the service is open to this machine, or None if it needs a key.

        Raises `UserError` NOT_LOCAL, and `InfrastructureError` REGISTRY_UNREAD.
        """
        self.see()
        if self._registry.snapshot().operators or not self._keyless:
            return None
        if not is_local(headers, scheme):
            raise UserError(NOT_LOCAL, NOT_LOCAL.title)
        return LOCAL

    def holder_of(self, key: str) -> tuple[str, bytes, Caller]:
        """Return the name of a key, its fingerprint for `holder_by`, and its holder.

        Raises:
            UserError: UNAUTHENTICATED, or NOT_ALLOWED for a sender's key.
            InfrastructureError: REGISTRY_UNREAD.
        """
        given = bearer(b"Bearer " + key.encode())
        if given is None:
            raise _unauthenticated()
        is_dev = any(given.matches(self._dev_hashes))
        return given.name, _fingerprint(given.digest), LOCAL if is_dev else self._holder(given)

    def holder_by(self, name: str, fingerprint: bytes) -> Caller | None:
        """Return the holder of a key that was given before, or None once the key is not valid any more.

        Raises `InfrastructureError` REGISTRY_UNREAD.
        """
        operator = self._registry.snapshot().operators.get(name)
        live = [] if operator is None else operator.live_hashes(datetime.now(UTC))
        if operator is not None and any(compare_digest(_fingerprint(each), fingerprint) for each in live):
            return Caller(name, operator.role, operator.events)
        is_dev = any(compare_digest(_fingerprint(each), fingerprint) for each in self._dev_hashes)
        return LOCAL if is_dev else None

    def _holder(self, given: Bearer) -> Caller:
        known, now = self._registry.snapshot(), datetime.now(UTC)
        operator, sender = known.operators.get(given.name), known.keys.get(given.name)
        matches = given.matches([] if operator is None else operator.live_hashes(now))
        if operator is not None and any(matches):
            return Caller(given.name, operator.role, operator.events)
        if sender is not None and any(given.matches(sender.live_hashes(now))):
            raise UserError(NOT_ALLOWED, "this is a key for sending events")
        raise _unauthenticated()


def _fingerprint(digest: bytes) -> bytes:
    """Return what a cookie holds of a key: the registry's digest cannot be computed from it."""
    return hashlib.sha256(b"fingerprint" + digest).digest()[:16]


def _unauthenticated() -> UserError:
    return UserError(UNAUTHENTICATED, "no valid key was given")
