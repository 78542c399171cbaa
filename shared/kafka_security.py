"""How Kafka is spoken to: one description for every client that we build, in three dialects.

It holds names of files and never what is in them, so that it may travel to Spark's tasks, into
plans and into logs.  Secrets are read where a connection is made: by Python at each SCRAM login,
by Kafka's Java client through its own `DirectoryConfigProvider` (docs/adr, TLS and SASL).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from shared.tls import client_context

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

_PROVIDER: Final = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
_LOGIN: Final = "org.apache.kafka.common.security"
#: Kafka's Java client takes a file's text whole.  Its login text ends a string at a line break as
#: well as at a quote, so that this reads the same whether or not the file ends in one: without it
#: `unused` is "=or //", with it " unused=" is `or`, and either means nothing to a login.
_REST: Final = '" unused="=or //"\n;'


class SecretError(OSError, ValueError):
    """A file of secrets cannot be used: to settings a wrong value, to a client a connection that failed."""


class Password(str):
    """A password of a file: as text what it was when a client was built, as bytes what it is now.

    aiokafka keeps it with the client and asks for its bytes at each SCRAM login.
    """

    __slots__ = ("_file",)
    _file: Path

    @classmethod
    def of(cls, file: Path) -> "Password":
        """The password in `file`.  Raises `SecretError`."""
        self = cls(read_secret(file))
        self._file = file
        return self

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """What the file says now."""
        return read_secret(self._file).encode(encoding, errors)

    def __repr__(self) -> str:
        return f"<the password in {self._file}>"


@dataclass(frozen=True, slots=True)
class KafkaSecurity:
    """The protocol, and which files hold what it needs."""

    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism = "SCRAM-SHA-512"
    username: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    @property
    def is_tls(self) -> bool:
        """Whether nobody between us and Kafka can read or change a word."""
        return self.protocol in {"SSL", "SASL_SSL"}

    @property
    def is_sasl(self) -> bool:
        """Whether we log in by a password."""
        return self.protocol in {"SASL_PLAINTEXT", "SASL_SSL"}

    @property
    def authenticates(self) -> bool:
        """Whether Kafka can know who we are: by a password or by a certificate."""
        return self.is_sasl or (self.is_tls and self.cert_file is not None)

    def check(self) -> Self:
        """Raises `ValueError` for what does not go together, and `SecretError` for unfit files."""
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
        if _unfit(self.username):
            raise ValueError("ONRAMP_KAFKA_USERNAME may hold no quote, backslash or control character")
        if self.password_file:
            read_secret(self.password_file)
        return self

    def aiokafka(self) -> dict[str, Any]:
        """Arguments of aiokafka's clients.  Raises `SecretError`, or `OSError` for certificates."""
        found: dict[str, Any] = {"security_protocol": self.protocol}
        if self.is_tls:
            found["ssl_context"] = client_context(self.ca_file, self.cert_file, self.key_file)
        if self.is_sasl and self.password_file:
            found["sasl_mechanism"] = self.mechanism
            found["sasl_plain_username"] = self.username
            found["sasl_plain_password"] = Password.of(self.password_file)
        return found

    def java(self) -> dict[str, str]:
        """Properties of Kafka's Java clients: secrets as references to their files."""
        if self.protocol == "PLAINTEXT":
            return {}
        found = {
            "security.protocol": self.protocol,
            "config.providers": "directory",
            "config.providers.directory.class": _PROVIDER,
        }
        if self.ca_file:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_file)}
        if self.cert_file and self.key_file:
            found["ssl.keystore.type"] = "PEM"
            found["ssl.keystore.certificate.chain"] = _reference(self.cert_file)
            found["ssl.keystore.key"] = _reference(self.key_file)
        if self.is_sasl and self.password_file:
            found["sasl.mechanism"] = self.mechanism
            found["sasl.jaas.config"] = self._login(self.password_file)
        return found

    def librdkafka(self) -> dict[str, str]:
        """Options of librdkafka's clients; they hold the password, so they stay where they are made."""
        if self.protocol == "PLAINTEXT":
            return {}
        found: dict[str, str] = {"security.protocol": self.protocol}
        if self.ca_file:
            found["ssl.ca.location"] = str(self.ca_file)
        if self.cert_file and self.key_file:
            found["ssl.certificate.location"] = str(self.cert_file)
            found["ssl.key.location"] = str(self.key_file)
        if self.is_sasl and self.password_file:
            found["sasl.mechanism"] = self.mechanism
            found["sasl.username"] = self.username
            found["sasl.password"] = read_secret(self.password_file)
        return found

    @property
    def files_version(self) -> str:
        """Another text whenever a file has changed: a Java client keeps what it was built with."""
        files = (self.password_file, self.ca_file, self.cert_file, self.key_file)
        found = [f.stat() for f in files if f is not None and f.exists()]
        return "-".join(f"{each.st_mtime_ns:x}.{each.st_ino:x}" for each in found)

    def _login(self, password_file: Path) -> str:
        module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
        reference = _reference(password_file)
        return f'{_LOGIN}.{module} required username="{self.username}" password="{reference}{_REST}'


@dataclass(frozen=True, slots=True)
class Brokers:
    """Where Kafka is, and how it is spoken to."""

    bootstrap: str
    security: KafkaSecurity = KafkaSecurity()

    def aiokafka(self) -> dict[str, Any]:
        """Arguments of aiokafka's clients."""
        return {"bootstrap_servers": self.bootstrap, **self.security.aiokafka()}

    def java(self) -> dict[str, str]:
        """Properties of Kafka's Java clients."""
        return {"bootstrap.servers": self.bootstrap, **self.security.java()}

    def librdkafka(self) -> dict[str, str]:
        """Options of librdkafka's clients."""
        return {"bootstrap.servers": self.bootstrap, **self.security.librdkafka()}

    def __str__(self) -> str:
        return self.bootstrap


def read_secret(file: Path) -> str:
    """The secret in `file`, without the line break at its end.  Raises `SecretError`, never with its text."""
    try:
        found = file.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as e:
        raise SecretError(
            f"the password in {file} cannot be read ({type(e).__name__}): name a text file that this "
            "user may read"
        ) from None
    if not found or _unfit(found):
        raise SecretError(
            f"the password in {file} is empty, or has a quote, backslash or control character in it, which "
            "not every Kafka client can take: choose another one"
        )
    return found


def _unfit(text: str) -> bool:
    return any(c in '"\\' or not c.isprintable() for c in text)


def _reference(file: Path) -> str:
    return f"${{directory:{file.parent}:{file.name}}}"
