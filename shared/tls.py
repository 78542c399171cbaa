"""TLS contexts whose files may change: each handshake uses the certificates that lie there now.

A certificate is renewed every few weeks and by somebody else; a service that must be started anew
for it is one that is down when nobody remembers.  What was read once stays in use while the new
files cannot be read together (half of them are written, say).
"""

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

log = logging.getLogger(__name__)

#: OpenSSL's words for certificates that are refused, and what a person does about them.
_DATES: Final = {9: "is not valid yet", 10: "has expired"}
_STRANGERS: Final = frozenset({2, 18, 19, 20, 21})
_NAMES: Final = frozenset({62, 64})
#: Alerts by which a server says that it does not take the client's certificate.
_REFUSED: Final = ("CERTIFICATE", "UNKNOWN_CA", "ALERT_HANDSHAKE_FAILURE")


class _Context(ssl.SSLContext):
    """What the files said at one moment."""

    trusted: str = "the CAs of this machine"


class ReloadingContext(ssl.SSLContext):
    """Makes each handshake by a context of the files' present content."""

    _build: Callable[[], _Context]
    _files: tuple[Path, ...]
    _seen: tuple[object, ...]
    _current: _Context

    @classmethod
    def of(cls, protocol: int, build: Callable[[], _Context], *files: Path | None) -> "ReloadingContext":
        """`build` anew whenever one of `files` has changed.  Raises `OSError`, which `ssl.SSLError` is."""
        self = cls(protocol)
        self._build, self._files = build, tuple(f for f in files if f is not None)
        self._seen = self._look()
        self._current = build()
        return self

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Begin one handshake: asyncio and uvloop make all of theirs by this method."""
        return self._now().wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """The same for who blocks."""
        return self._now().wrap_socket(*args, **kwargs)

    def _now(self) -> _Context:
        seen = self._look()
        if seen != self._seen:
            try:
                self._current, self._seen = self._build(), seen
                log.info("certificates are read anew", extra={"files": [str(f) for f in self._files]})
            except (OSError, ValueError) as e:
                log.error(  # noqa: TRY400 - the files are at fault, not the code
                    "changed certificates cannot be read, those from before stay in use: write a "
                    "certificate and the key that belongs to it",
                    extra={"files": [str(f) for f in self._files], "reason": str(e)},
                )
        return self._current

    def _look(self) -> tuple[object, ...]:
        return tuple(_state_of(f) for f in self._files)


def client_context(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """For connections to servers whose certificates `ca` issued (None: a CA that this machine trusts).

    `cert` and `key` say who we are, where the server asks.
    """

    def build() -> _Context:
        context = _Context(ssl.PROTOCOL_TLS_CLIENT)  # checks the chain and the server's name
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslobject_class = _Explained
        if ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(ca)
            context.trusted = str(ca)
        if cert is not None:
            context.load_cert_chain(cert, key)
        return context

    return ReloadingContext.of(ssl.PROTOCOL_TLS_CLIENT, build, ca, cert, key)


def server_context(cert: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """For a server that shows `cert`, and with `client_ca` takes only clients that have one of its own."""

    def build() -> _Context:
        context = _Context(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(cert, key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    return ReloadingContext.of(ssl.PROTOCOL_TLS_SERVER, build, cert, key, client_ca)


class _Explained(ssl.SSLObject):
    """A client's side of a connection; what fails on certificates says whose, why, and what to do."""

    def do_handshake(self) -> None:
        """Raises `ssl.SSLCertVerificationError` in our words."""
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as e:
            raise ssl.SSLCertVerificationError(e.errno, self._explained(e)) from None

    def read(self, *args: Any) -> Any:
        """In TLS 1.3 a server judges the client's certificate after the handshake."""
        try:
            return super().read(*args)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            raise
        except ssl.SSLError as e:
            if any(word in str(e.reason) for word in _REFUSED):
                log.error(  # noqa: TRY400 - aiokafka would say no more than that the connection is gone
                    "a server refuses our certificate: give one that its CA issued and that has not expired",
                    extra={"server": self.server_hostname, "reason": e.reason},
                )
            raise

    def _explained(self, error: ssl.SSLCertVerificationError) -> str:
        whose, code = f"the certificate of {self.server_hostname}", error.verify_code
        trusted = getattr(self.context, "trusted", "")
        if code in _DATES:
            return f"{whose} {_DATES[code]}: have the server renew it, and look at both clocks"
        if code in _NAMES:
            return (
                f"{whose} is for another name: connect by a name that it holds (Kafka's brokers say "
                "theirs in advertised.listeners), or have it issued for this one too"
            )
        if code in _STRANGERS:
            return (
                f"{whose} was issued by none of {trusted}: name the CA that issued it, or find out who "
                "answers there"
            )
        return f"{whose} is refused, {error.verify_message}: have the server's certificate mended"


def _state_of(file: Path) -> object:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
