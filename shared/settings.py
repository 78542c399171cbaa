"""Settings of more than one service. Frozen, checked at the start, passed as arguments.

Each comes from the environment (`ONRAMP_KAFKA_BOOTSTRAP` …); ``docs/settings.md`` lists
them all with their defaults and reasons, and a test compares the two.
"""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared import wire
from shared.kafka_security import Brokers, KafkaSecurity, Mechanism, Protocol


class KafkaSettings(BaseSettings):
    """The connection to Kafka, and the creation of Onramp's topics."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_KAFKA_", frozen=True)

    bootstrap: str = Field(
        "127.0.0.1:9092", description="Kafka's bootstrap servers, host:port, comma-separated."
    )
    partitions: int = Field(
        2,
        ge=1,
        le=1000,
        description="Partitions of a new event type's topic; each costs about a millisecond of every batch.",
    )
    replication: int = Field(1, ge=1, le=10, description="Replicas of a new topic; 3 in production.")
    min_insync: int = Field(
        1,
        ge=1,
        le=10,
        description="min.insync.replicas of a new topic: replicas that have an event before its 202; 2 in "
        "production.",
    )
    create_topics: bool = Field(
        True,
        description="Whether gateway and writer create missing topics. If not, they need fewer rights "
        "(docs/tls.md), and the creator of the topics decides their settings.",
    )
    security_protocol: Protocol = Field(
        "PLAINTEXT",
        description="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, as the brokers' listener (docs/tls.md).",
    )
    sasl_mechanism: Mechanism = Field(
        "SCRAM-SHA-512", description="SASL mechanism: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN."
    )
    username: str = Field("", description="The user to log in as, with SASL.")
    password_file: Path | None = Field(
        None, description="The file with the password; reloaded at each login."
    )
    ca_file: Path | None = Field(
        None,
        description="The CAs that may have issued the brokers' certificates, as PEM; without it those that "
        "this machine trusts.",
    )
    cert_file: Path | None = Field(
        None, description="The client certificate and its chain, as PEM, for brokers that require one (mTLS)."
    )
    key_file: Path | None = Field(
        None, description="The key of that certificate, as PEM in PKCS #8, without a passphrase."
    )

    @property
    def security(self) -> KafkaSecurity:
        """Return the security settings, with absolute paths for processes that run elsewhere."""
        names = ("password_file", "ca_file", "cert_file", "key_file")
        files: dict[str, Path | None] = {name: getattr(self, name) for name in names}
        return KafkaSecurity(
            protocol=self.security_protocol,
            mechanism=self.sasl_mechanism,
            username=self.username,
            **{name: f and f.absolute() for name, f in files.items()},
        )

    @property
    def brokers(self) -> Brokers:
        """Return the arguments of every Kafka client."""
        return Brokers(self.bootstrap, self.security)

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        self.security.check()
        return self

    @property
    def secured(self) -> bool:
        """Return whether connections are encrypted and authenticated, as production requires."""
        return self.security.is_tls and self.security.authenticates


class AccessSettings(BaseSettings):
    """The access of callers without a key."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_", frozen=True)

    allow_keyless: bool = Field(
        False,
        description="Accept the risk of services without keys: while the registry has no key, the gateway "
        "accepts events of every sender, and an admin service on a loopback address serves every program "
        "of its machine. A lost registry has no keys. By default both refuse requests without a key.",
    )


class RegistrySettings(BaseSettings):
    """The registry of event types and API keys."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_REGISTRY_", frozen=True)

    topic: str = Field(
        wire.REGISTRY,
        pattern=r"^onramp\.registry[A-Za-z0-9._-]{0,200}$",
        description="Topic of the registry; another name separates two installations on one Kafka. The name "
        "begins with onramp.registry, because no event can be sent to such a topic.",
    )
