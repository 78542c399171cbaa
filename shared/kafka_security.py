"""TLS and SASL settings of Kafka clients: one description, converted for each client library.

It contains names of files and never their contents, so that it may be sent to Spark's tasks, into
plans and into logs. Secrets are read where a connection is opened (docs/adr, TLS and SASL).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from shared.tls import client_context

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

#: The variable of Kafka Connect's worker that has the password of its clients.
CONNECT_ENV: Final = "ONRAMP_CONNECT_KAFKA_PASSWORD"


class SecretError(OSError, ValueError):
    """A file of secrets cannot be used.  A `ValueError` for pydantic, an `OSError` for Kafka clients."""


class Password(str):
    """A password in a file: as text its value when a client was built, as bytes its current value.

    aiokafka keeps it with the client and encodes it at each SCRAM login.
    """

    __slots__ = ("_file",)
    _file: Path

    @classmethod
    def of(cls, file: Path) -> "Password":
        """Read the password in `file`.  Raises `SecretError`."""
        self = cls(read_secret(file))
        self._file = file
        return self

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Reload the file and return its bytes. Raises `SecretError`."""
        return read_secret(self._file).encode(encoding, errors)

    def __repr__(self) -> str:
        return f"<the password in {self._file}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSecurity:
    """The security protocol and its files."""

    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism = "SCRAM-SHA-512"
    username: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    @property
    def is_tls(self) -> bool:
        """Return whether connections are encrypted and the brokers' certificates checked."""
        return self.protocol in {"SSL", "SASL_SSL"}

    @property
    def is_sasl(self) -> bool:
        """Return whether clients log in with a password."""
        return self.protocol in {"SASL_PLAINTEXT", "SASL_SSL"}

    @property
    def authenticates(self) -> bool:
        """Return whether clients authenticate, with a password or a certificate."""
        return self.is_sasl or (self.is_tls and self.cert_file is not None)

    def check(self) -> Self:
        """Check and return it.  Raises `ValueError`: a wrong combination; `SecretError`: an unusable file."""
        if self.is_sasl and not (self.username and self.password_file):
            raise ValueError(f"{self.protocol} needs ONRAMP_KAFKA_USERNAME and ONRAMP_KAFKA_PASSWORD_FILE")
        if not self.is_sasl and (self.username or self.password_file):
            raise ValueError(
                f"a user name and password are of no use with {self.protocol}: set "
                "ONRAMP_KAFKA_SECURITY_PROTOCOL to SASL_SSL, or leave them out"
            )
        if bool(self.cert_file) != bool(self.key_file):
            raise ValueError("ONRAMP_KAFKA_CERT_FILE and ONRAMP_KAFKA_KEY_FILE go together")
        if not self.is_tls and (self.ca_file or self.cert_file):
            raise ValueError(
                f"certificates are of no use with {self.protocol}: set ONRAMP_KAFKA_SECURITY_PROTOCOL to "
                "SSL or SASL_SSL, or leave them out"
            )
        if _is_unusable(self.username):
            raise ValueError("ONRAMP_KAFKA_USERNAME may hold no quote, backslash or control character")
        if self.password_file:
            read_secret(self.password_file)
        return self

    def aiokafka(self) -> dict[str, Any]:
        """Return arguments of aiokafka's clients.  Raises `SecretError`, or `OSError` for certificates."""
        arguments: dict[str, Any] = {"security_protocol": self.protocol}
        if self.is_tls:
            arguments["ssl_context"] = client_context(self.ca_file, self.cert_file, self.key_file)
        if self.is_sasl and self.password_file:
            arguments["sasl_mechanism"] = self.mechanism
            arguments["sasl_plain_username"] = self.username
            arguments["sasl_plain_password"] = Password.of(self.password_file)
        return arguments

    def librdkafka(self) -> dict[str, str]:
        """Return options of librdkafka's clients.  They contain the password: never log or store them."""
        if self.protocol == "PLAINTEXT":
            return {}
        options: dict[str, str] = {"security.protocol": self.protocol}
        if self.ca_file:
            options["ssl.ca.location"] = str(self.ca_file)
        if self.cert_file and self.key_file:
            options["ssl.certificate.location"] = str(self.cert_file)
            options["ssl.key.location"] = str(self.key_file)
        if self.is_sasl and self.password_file:
            options["sasl.mechanism"] = self.mechanism
            options["sasl.username"] = self.username
            options["sasl.password"] = read_secret(self.password_file)
        return options

    def connect(self) -> dict[str, str]:
        """Return options of Kafka Connect's clients: its worker's and its connectors' own.

        The password, certificate and key are references, which the worker resolves by its providers `env`
        and `directory`: they are in no topic and no answer of its REST interface.
        """
        if self.protocol == "PLAINTEXT":
            return {}
        options: dict[str, str] = {"security.protocol": self.protocol}
        if self.ca_file:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_file)}
        if self.cert_file and self.key_file:
            options["ssl.keystore.type"] = "PEM"
            options["ssl.keystore.certificate.chain"] = _text_of(self.cert_file)
            options["ssl.keystore.key"] = _text_of(self.key_file)
        if self.is_sasl:
            module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
            options["sasl.mechanism"] = self.mechanism
            options["sasl.jaas.config"] = (
                f'org.apache.kafka.common.security.{module} required username="{self.username}" '
                f'password="${{env:{CONNECT_ENV}}}";'
            )
        return options

    @property
    def files_version(self) -> str:
        """Return a text that changes with the files, so that clients are rebuilt then."""
        files = (self.password_file, self.ca_file, self.cert_file, self.key_file)
        stats = [f.stat() for f in files if f is not None and f.exists()]
        return "-".join(f"{each.st_mtime_ns:x}.{each.st_ino:x}" for each in stats)


@dataclass(frozen=True, slots=True)
class Brokers:
    """The addresses of Kafka's brokers, and the security settings of their clients."""

    bootstrap: str
    security: KafkaSecurity = KafkaSecurity()

    def aiokafka(self) -> dict[str, Any]:
        """Return arguments of aiokafka's clients.  Raises as `KafkaSecurity.aiokafka`."""
        return {"bootstrap_servers": self.bootstrap, **self.security.aiokafka()}

    def librdkafka(self) -> dict[str, str]:
        """Return options of librdkafka's clients; they contain the password."""
        return {"bootstrap.servers": self.bootstrap, **self.security.librdkafka()}

    def __str__(self) -> str:
        return self.bootstrap


def read_secret(file: Path) -> str:
    """Read the secret in `file` without the line break at its end.  Raises `SecretError` without its text."""
    try:
        secret = file.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as e:
        raise SecretError(
            f"the password in {file} cannot be read ({type(e).__name__}): name a text file that this "
            "user may read"
        ) from None
    if not secret or _is_unusable(secret):
        raise SecretError(
            f"the password in {file} is empty, or has a quote, backslash or control character in it, which "
            "not every Kafka client can take: choose another one"
        )
    return secret


def _text_of(file: Path) -> str:
    return f"${{directory:{file.parent}:{file.name}}}"


def _is_unusable(text: str) -> bool:
    return any(c in '"\\' or not c.isprintable() for c in text)
