"""TLS contexts that reload their files: each handshake uses the current certificates.

Certificates are renewed externally every few weeks; a service that needs a restart for that is
down if the restart is forgotten. The last certificates remain in use while new files
cannot be loaded (for example, half written).
"""

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

log = logging.getLogger(__name__)

#: OpenSSL's verification errors (x509_vfy.h) about dates.
_DATES: Final = {9: "is not valid yet", 10: "has expired"}
_UNKNOWN_ISSUERS: Final = frozenset({2, 18, 19, 20, 21})
_NAMES: Final = frozenset({62, 64})
#: Alerts with which a server rejects the client's certificate.
_REJECTED: Final = ("CERTIFICATE", "UNKNOWN_CA", "ALERT_HANDSHAKE_FAILURE")


class _Context(ssl.SSLContext):
    """A context built from the files' content at one time."""

    trusted: str = "the CAs of this machine"


class ReloadingContext(ssl.SSLContext):
    """A context that uses the files' current content for each handshake; costs one `stat` per file."""

    _build: Callable[[], _Context]
    _files: tuple[Path, ...]
    _loaded_state: tuple[object, ...]
    _current: _Context
    #: State of the files at the last logged read error: each handshake retries, without logging it again.
    _unreadable: tuple[object, ...] | None = None

    @classmethod
    def of(cls, protocol: int, build: Callable[[], _Context], *files: Path | None) -> "ReloadingContext":
        """Return a context, rebuilt after each change of a file. Raises `OSError` (also `ssl.SSLError`)."""
        self = cls(protocol)
        self._build, self._files = build, tuple(f for f in files if f is not None)
        self._loaded_state = self._file_state()
        self._current = build()
        return self

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Start a handshake, for asyncio and uvloop."""
        return self._current_context().wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """Start a handshake, for blocking sockets."""
        return self._current_context().wrap_socket(*args, **kwargs)

    def _current_context(self) -> _Context:
        state = self._file_state()
        if state != self._loaded_state:
            try:
                self._current, self._loaded_state = self._build(), state
                log.info(
                    "certificates reloaded",
                    extra={"files": [str(f) for f in self._files]},
                )
            except (OSError, ValueError) as e:
                if state != self._unreadable:
                    self._unreadable = state
                    self._report(e)
        return self._current

    def _report(self, error: Exception) -> None:
        log.error(
            "changed certificates cannot be read; keeping the previous ones: write a certificate and the "
            "key that belongs to it",
            extra={"files": [str(f) for f in self._files], "reason": str(error)},
        )

    def _file_state(self) -> tuple[object, ...]:
        return tuple(_state_of(f) for f in self._files)


def client_context(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """Build a context for clients of servers whose certificates `ca` issued (None: the machine's CAs).

    `cert` and `key` are the client's own, for servers that request them. Raises `OSError`.
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
    """Build a context for a server; with `client_ca` it accepts only clients with its certificates."""

    def build() -> _Context:
        context = _Context(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(cert, key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    return ReloadingContext.of(ssl.PROTOCOL_TLS_SERVER, build, cert, key, client_ca)


def require_certificate(
    cert: Path | None, key: Path | None, client_ca: Path | None, *, is_needed: bool = False
) -> None:
    """Raise `ValueError` if a certificate has no key, or if TLS is configured without a certificate."""
    if bool(cert) != bool(key):
        raise ValueError("tls_cert_file and tls_key_file go together")
    if not cert and (client_ca or is_needed):
        raise ValueError("TLS needs tls_cert_file and tls_key_file")


def context_if_given(cert: Path | None, key: Path | None, client_ca: Path | None) -> ssl.SSLContext | None:
    """Return a server's context; None without a certificate. Raises `OSError` if a file cannot be used."""
    return None if cert is None or key is None else server_context(cert, key, client_ca)


class _Explained(ssl.SSLObject):
    """A client's connection whose certificate errors name the certificate, the reason and the fix."""

    def do_handshake(self) -> None:
        """Do the handshake.  Raises `ssl.SSLCertVerificationError` with the fix."""
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as e:
            raise ssl.SSLCertVerificationError(e.errno, self._explained(e)) from None

    def read(self, *args: Any) -> Any:
        """Read; log when the server rejects our certificate, in TLS 1.3 only after the handshake."""
        try:
            return super().read(*args)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            raise
        except ssl.SSLError as e:
            if any(word in str(e.reason) for word in _REJECTED):
                log.error(  # noqa: TRY400 - aiokafka would only report a closed connection
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
        if code in _UNKNOWN_ISSUERS:
            return (
                f"{whose} was issued by none of {trusted}: name the CA that issued it, or check which server "
                "answers there"
            )
        return f"{whose} is refused, {error.verify_message}: have the server's certificate fixed"


def _state_of(file: Path) -> object:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size
