"""Sessions: a signed cookie that names an operator's key, and login links that are valid once.

The cookie holds no key: it holds the name and a digest of the key's digest, and each request looks both up
in the registry.  A session therefore ends with its key, and survives a restart.  Stored are logouts alone.
"""

import hmac
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64Error
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

import orjson
from starlette.datastructures import Headers

from services.admin.api.operators import Caller, Operators
from shared.errors import TOO_MANY_WRONG_KEYS, UNAUTHENTICATED, InfrastructureError, UserError

SECONDS: Final = 8 * 3600
LINK_SECONDS: Final = 600
_MAX_LINKS: Final = 100
#: Maximum wrong keys of one address in a minute, and addresses that are remembered.
_MAX_WRONG: Final = 10
_WINDOW: Final = 60.0
_MAX_ADDRESSES: Final = 10_000


class Session(NamedTuple):
    """Someone who is logged in: the name of the key, its fingerprint, and the rights."""

    name: str
    fingerprint: bytes
    caller: Caller


class _Cookie(NamedTuple):
    """The signed content of a cookie; `id`: a logout ends this one session of the key."""

    name: str
    fingerprint: str
    since: int
    id: str


class Stored(Protocol):
    """The stored part of sessions, which all replicas of the service share."""

    def secret(self) -> bytes:
        """Return the secret that signs cookies."""

    def end(self, session: str, seconds: float) -> None:
        """Store the end of a session."""

    def has_ended(self, session: str) -> bool:
        """Return whether a session was logged out."""


class TooManyWrongKeysError(InfrastructureError):
    """An address has sent too many wrong keys; the key of this request was not compared."""


class WrongKeys:
    """Counts wrong keys by address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._of: dict[str, deque[float]] = {}

    def require_few(self, address: str) -> None:
        """Raise `TooManyWrongKeysError` after ten wrong keys within a minute."""
        # A copy, because logins of the same address run in several threads.
        times = self._of.get(address, deque()).copy()
        if sum(moment > self._clock() - _WINDOW for moment in times) >= _MAX_WRONG:
            raise TooManyWrongKeysError(
                TOO_MANY_WRONG_KEYS, f"{_MAX_WRONG} wrong keys came from {address} within a minute"
            )

    def add(self, address: str) -> None:
        """Count a wrong key."""
        times = self._of.pop(address, deque(maxlen=_MAX_WRONG))
        times.append(self._clock())
        self._of[address] = times  # the address of the latest wrong key is last
        if len(self._of) > _MAX_ADDRESSES:
            self._of.pop(next(iter(self._of)))


class Sessions:
    """Makes and reads cookies, form tokens and login links."""

    def __init__(self, operators: Operators, stored: Stored, clock: Callable[[], float] = time.time) -> None:
        self._operators = operators
        self._stored = stored
        self._clock = clock
        self._links: dict[str, tuple[float, str, bytes]] = {}
        self.wrong_keys = WrongKeys()

    def log_in(self, key: str, address: str) -> Session:
        """Return the session of the holder of a key.

        Raises:
            UserError: UNAUTHENTICATED, or NOT_ALLOWED for a sender's key.
            InfrastructureError: too many wrong keys, or the registry was not read.
        """
        self.wrong_keys.require_few(address)
        try:
            return Session(*self._operators.holder_of(key))
        except UserError:
            self.wrong_keys.add(address)
            raise

    def session_of(self, cookie: str) -> Session | None:
        """Return the session of a cookie, or None after 8 h, a logout, or the end of its key."""
        found = self._signed(cookie)
        if found is None or self._stored.has_ended(found.id):
            return None
        return self._live(found.name, _decoded(found.fingerprint))

    def end(self, cookie: str) -> None:
        """Log out: no copy of this cookie is a session any more."""
        if found := self._signed(cookie):
            self._stored.end(found.id, SECONDS)

    def _signed(self, cookie: str) -> _Cookie | None:
        """Return the content of a cookie, or None if the signature is wrong or the cookie is too old."""
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(b"cookie", body.encode()).encode()):
            return None
        said = orjson.loads(_decoded(body))
        if len(said) != len(_Cookie._fields):  # of an earlier version
            return None
        found = _Cookie(*said)
        return found if 0 <= self._clock() - found.since < SECONDS else None

    def cookie(self, session: Session) -> str:
        """Return the value of a new cookie."""
        said = _Cookie(
            session.name, _encoded(session.fingerprint), int(self._clock()), secrets.token_urlsafe(12)
        )
        body = _encoded(orjson.dumps(list(said)))
        return f"{body}.{self._sign(b'cookie', body.encode())}"

    def form_token(self, session: Session) -> str:
        """Return the token of the forms of a key's holder; it survives a new login with the same key."""
        return self._sign(b"form", session.name.encode() + b"\n" + session.fingerprint)

    def is_form_token(self, session: Session, given: str) -> bool:
        """Return whether a form was made for this session."""
        return hmac.compare_digest(given.encode(), self.form_token(session).encode())

    def new_link(self, session: Session) -> str:
        """Return the token of a login link, which this process accepts once within ten minutes."""
        now = self._clock()
        self._links = {t: link for t, link in self._links.items() if now - link[0] < LINK_SECONDS}
        while len(self._links) >= _MAX_LINKS:
            self._links.pop(next(iter(self._links)))
        token = secrets.token_urlsafe(32)
        self._links[token] = (now, session.name, session.fingerprint)
        return token

    def use_link(self, token: str, address: str) -> Session:
        """Return the session of a login link, which is then used up.

        Raises `UserError` UNAUTHENTICATED, and `InfrastructureError` after many wrong ones.
        """
        self.wrong_keys.require_few(address)
        found = self._links.pop(token, None)
        session = found and self._clock() - found[0] < LINK_SECONDS and self._live(found[1], found[2])
        if not session:
            self.wrong_keys.add(address)
            raise UserError(UNAUTHENTICATED, "the login link was used, or is older than ten minutes")
        return session

    def _live(self, name: str, fingerprint: bytes) -> Session | None:
        caller = self._operators.holder_by(name, fingerprint)
        return None if caller is None else Session(name, fingerprint, caller)

    def keyless(self, headers: Headers, scheme: str) -> Session | None:
        """Return the session of a program of this machine, if the service needs no key now."""
        caller = self._operators.keyless_caller(headers, scheme)
        return None if caller is None else Session("this machine", b"", caller)

    def _sign(self, purpose: bytes, body: bytes) -> str:
        key = hmac.digest(self._stored.secret(), b"onramp ui " + purpose, sha256)
        return _encoded(hmac.digest(key, body, sha256))


def _encoded(given: bytes) -> str:
    return urlsafe_b64encode(given).rstrip(b"=").decode()


def _decoded(given: str) -> bytes:
    try:
        return urlsafe_b64decode(given.encode() + b"=" * (-len(given) % 4))
    except (NotBase64Error, ValueError):
        return b"null"
