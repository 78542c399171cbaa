"""The gateway's settings: name, default and reason in one place.

Frozen, checked at boot and passed as an argument.  Each comes from the environment
(`ONRAMP_INGEST_PORT` …).
"""

import ssl
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.tls import server_context

#: What stopping takes after the last answer: syslog, the producer by force if it must be.
STOP_SECONDS: Final = 6.0


class IngestSettings(BaseSettings):
    """What an operator may turn on the gateway."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_INGEST_", frozen=True, hide_input_in_errors=True)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    admin_host: str = Field("127.0.0.1", description="Address of the port for operators.")
    admin_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Port for operators: /metrics, /readyz and /docs, which then leave the other; 0: none.",
    )
    workers: int = Field(1, ge=1, le=64, description="Processes that share the port; one per core.")
    copies: int = Field(
        1,
        ge=1,
        le=1000,
        description="Gateways on all machines together: each grants its part of every quota.",
    )
    log_level: str = Field("INFO", description="Least level that is logged.")
    log_events: bool = Field(False, description="Log one line per accepted event as well.")

    profile: Literal["dev", "production"] = Field(
        "dev",
        description="production refuses to start with less than two in-sync replicas, and with what no ALLOW "
        "setting accepts (docs/security.md).",
    )
    dev_key: SecretStr = Field(
        SecretStr(""),
        description="A key that the embedded stack makes and prints; works beside the registered ones.",
    )
    allow_anonymous: bool = Field(
        False,
        description="Accept the risk of a door without keys: everybody who reaches the gateway sends what "
        "they like. Without it a gateway without keys is for its own machine alone.",
    )
    allow_cleartext_http: bool = Field(
        False,
        description="Accept the risk that keys and events are read on their way: in production, HTTP without "
        "TLS beyond this machine.",
    )
    allow_open_syslog: bool = Field(
        False,
        description="Accept the risk that everybody who reaches its port sends syslog: in production, beyond "
        "this machine without named networks.",
    )
    allow_unsecured_kafka: bool = Field(
        False,
        description="Accept the risk that whoever reaches Kafka reads and writes events: in production, "
        "Kafka without TLS and a login.",
    )
    cors_origins: str = Field(
        "", description="Origins of web pages that may send events, comma-separated; none by default."
    )

    tls_cert_file: Path | None = Field(
        None,
        description="The certificate and its chain, as PEM, to be shown to HTTP clients and to syslog over "
        "TLS; without it HTTP is cleartext. Read anew when it changes (docs/tls.md).",
    )
    tls_key_file: Path | None = Field(None, description="The key of that certificate, as PEM.")
    tls_client_ca_file: Path | None = Field(
        None, description="Take only clients with a certificate that one of these CAs issued (mTLS)."
    )

    max_body_bytes: int = Field(10 * 2**20, ge=1, description="Largest request body.")
    max_batch: int = Field(10_000, ge=1, description="Most events in one request.")
    max_event_bytes: int = Field(
        900_000,
        ge=1,
        description="Largest event; a topic's max.message.bytes (1 MB by default) must hold it.",
    )
    inflight_bytes: int = Field(
        256 * 2**20,
        ge=1,
        description="Most bytes that all requests together may hold; more is answered with 503.",
    )
    max_header_bytes: int = Field(16 * 2**10, ge=1024, description="Most bytes of a request's headers.")
    max_headers: int = Field(64, ge=8, description="Most headers of a request.")
    read_seconds: float = Field(
        10,
        gt=0,
        description="Longest that a request's header, and then its body, may take to arrive, and its answer "
        "to be read.",
    )

    syslog_host: str = Field("127.0.0.1", description="Address to listen on for syslog.")
    syslog_udp_port: int = Field(0, ge=0, le=65535, description="Port for syslog over UDP; 0 is off.")
    syslog_tcp_port: int = Field(0, ge=0, le=65535, description="Port for syslog over TCP; 0 is off.")
    syslog_tls_port: int = Field(
        0, ge=0, le=65535, description="Port for syslog over TLS (RFC 5425, usually 6514); 0 is off."
    )
    syslog_message_bytes: int = Field(64 * 2**10, ge=480, description="Longer syslog messages are cut.")
    syslog_queue_bytes: int = Field(
        16 * 2**20, ge=1, description="Most bytes of UDP messages that wait for Kafka; more are lost."
    )
    syslog_connections: int = Field(
        500,
        ge=1,
        description="Most syslog connections at once. When all are taken, the address that has most of them "
        "gives up its longest silent one to another.",
    )
    syslog_idle_seconds: float = Field(
        900, gt=0, description="A syslog connection that says nothing for this long is closed."
    )
    syslog_events_per_second: float | None = Field(
        None, gt=0, description="Most syslog messages per second of all senders together."
    )
    syslog_bytes_per_second: float | None = Field(
        None, gt=0, description="Most bytes of syslog per second of all senders together."
    )
    syslog_source_events_per_second: float | None = Field(
        None,
        gt=0,
        description="Most syslog messages per second of one address: a connection that has more waits, "
        "datagrams above it are dropped and counted.",
    )
    syslog_source_bytes_per_second: float | None = Field(
        None, gt=0, description="Most bytes of syslog per second of one address."
    )
    syslog_networks: str = Field(
        "",
        description="Networks that may send syslog (10.1.0.0/16, 2001:db8::/32), comma-separated; every "
        "address when it is empty.",
    )

    linger_ms: float = Field(
        5,
        ge=0,
        le=1000,
        description="Time between two departures of batches to Kafka; after a pause one leaves at once.",
    )
    compression: Literal["none", "gzip", "lz4", "zstd"] = Field(
        "none", description="How batches to Kafka are compressed."
    )
    deadline_seconds: float = Field(10, gt=0, description="Longest wait for Kafka's acknowledgement.")
    wedged_seconds: float = Field(
        15,
        gt=0,
        description="A batch without an answer for this long means a wedged producer: it is rebuilt.",
    )
    retry_after_seconds: int = Field(2, ge=1, description="What 503 answers tell clients to wait.")
    grace_seconds: float = Field(
        20,
        gt=0,
        description="Longest time from SIGTERM to exit; at least 7 more than the deadline and "
        "drain_seconds, so that all that was taken is answered.",
    )
    drain_seconds: float = Field(
        0,
        ge=0,
        description="How long the gateway goes on serving after SIGTERM, while /readyz is 503 and answers "
        "say Connection: close; behind a balancer longer than it takes to notice.",
    )
    keep_alive_seconds: int = Field(
        75,
        ge=1,
        description="How long a connection may be silent between two requests; longer than the balancer's.",
    )

    @field_validator("syslog_networks")
    @classmethod
    def _are_networks(cls, given: str) -> str:
        _networks(given)
        return given

    @model_validator(mode="after")
    def _no_empty_key(self) -> Self:
        # Taken for none, it would open the door to everybody.
        if "dev_key" in self.model_fields_set and not self.dev_key.get_secret_value().strip():
            raise ValueError("dev_key is set and empty: give a key, or unset it to have none")
        return self

    @model_validator(mode="after")
    def _time_to_answer(self) -> Self:
        least = self.deadline_seconds + self.drain_seconds + STOP_SECONDS + 1
        if self.grace_seconds < least:
            raise ValueError(
                f"grace_seconds must be at least {least:g}, 7 more than deadline_seconds and drain_seconds"
            )
        return self

    @model_validator(mode="after")
    def _whole_certificates(self) -> Self:
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise ValueError("tls_cert_file and tls_key_file go together")
        if not self.tls_cert_file and (self.tls_client_ca_file or self.syslog_tls_port):
            raise ValueError("TLS needs tls_cert_file and tls_key_file")
        return self

    def tls(self) -> ssl.SSLContext | None:
        """What listeners show and ask for; None without a certificate.  Raises `OSError`."""
        if self.tls_cert_file is None or self.tls_key_file is None:
            return None
        return server_context(self.tls_cert_file, self.tls_key_file, self.tls_client_ca_file)

    @property
    def origins(self) -> frozenset[bytes]:
        """The origins of `cors_origins`."""
        return frozenset(each.strip().encode() for each in self.cors_origins.split(",") if each.strip())

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks of `syslog_networks`."""
        return _networks(self.syslog_networks)


def _networks(given: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(each.strip()) for each in given.split(",") if each.strip())
