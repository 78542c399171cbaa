"""The gateway's settings: name, default, unit and effect in one place.

Frozen, checked at the start and passed as an argument. Each comes from the environment
(`ONRAMP_INGEST_PORT` …).
"""

import ssl
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared import event_lines
from shared.tls import context_if_given, require_certificate

#: Seconds that stopping takes after the last answer: syslog, and closing the producer by force.
STOP_SECONDS: Final = 6.0


class IngestSettings(BaseSettings):
    """The gateway's settings."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_INGEST_", frozen=True, hide_input_in_errors=True)

    host: str = Field("127.0.0.1", description="Address to listen on for HTTP.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on for HTTP; 0 picks a free one.")
    admin_host: str = Field("127.0.0.1", description="Address to listen on for operators.")
    admin_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Port of /metrics, /figures, /readyz and /docs, which the other port then does not "
        "serve; 0: they are served by the other port.",
    )
    workers: int = Field(1, ge=1, le=64, description="Number of processes that share the port: one per core.")
    worker_start_seconds: float = Field(
        120.0,
        gt=0,
        description="Maximum seconds that one of several workers takes to start; a slower one is replaced.",
    )
    replicas: int = Field(
        1,
        ge=1,
        le=1000,
        description="Number of gateways on all machines together; each grants its part of every quota.",
    )
    log_level: str = Field("INFO", description="Minimum level that is logged: DEBUG, INFO, WARNING or ERROR.")
    new_counter_seconds: float = Field(
        60.0,
        ge=0,
        description="Seconds that a new counter is shown at 0 on /metrics before it counts: at least two "
        "scrapes, or Prometheus sees no increase, and the first event of a kind raises no alert.",
    )
    event_lines: int = Field(
        1_000,
        ge=0,
        description="Maximum lines per second that each process logs about accepted events: id, receipt, "
        "never "
        "values; beyond it a sample; 0: none. Rejected events have lines of their own.",
    )

    profile: Literal["dev", "production"] = Field(
        "dev",
        description="production refuses to start with less than two in-sync replicas, and with a risk that "
        "no "
        "ALLOW setting accepts (docs/security.md).",
    )
    dev_key: SecretStr = Field(
        SecretStr(""),
        description="A key that the embedded stack creates and prints; works in addition to registered keys.",
    )
    allow_cleartext_http: bool = Field(
        False,
        description="Accept the risk that keys and events are read in transit: in production, HTTP "
        "without TLS beyond this machine.",
    )
    allow_open_admin_port: bool = Field(
        False,
        description="Accept the risk that anyone who reaches the port for operators reads its pages: in "
        "production, beyond this machine, where it has neither TLS nor keys.",
    )
    allow_open_syslog: bool = Field(
        False,
        description="Accept the risk that anyone who reaches its port sends syslog: in production, "
        "beyond this machine without named networks.",
    )
    allow_unsecured_kafka: bool = Field(
        False,
        description="Accept the risk that anyone who reaches Kafka reads and writes events: in production, "
        "Kafka without TLS and a login.",
    )
    cors_origins: str = Field(
        "", description="Origins of web pages that may send events, comma-separated; none by default."
    )

    tls_cert_file: Path | None = Field(
        None,
        description="The certificate and its chain, as PEM, to be shown to HTTP clients and to syslog "
        "over TLS; without it HTTP is cleartext. Reloaded when it changes (docs/tls.md).",
    )
    tls_key_file: Path | None = Field(None, description="The key of that certificate, as PEM.")
    tls_client_ca_file: Path | None = Field(
        None, description="CAs, as PEM: only clients with a certificate issued by them can connect (mTLS)."
    )

    max_body_bytes: int = Field(
        10 * 2**20,
        ge=1,
        description="Maximum bytes of a request body, also when decompressed; larger ones are answered 413.",
    )
    max_batch: int = Field(
        10_000, ge=1, description="Maximum events in one request; a larger batch is answered 413."
    )
    max_event_bytes: int = Field(
        900_000,
        ge=1,
        description="Maximum bytes of an event; larger ones are answered 413. The max.message.bytes of "
        "topics (1 MB by default) must be larger.",
    )
    inflight_bytes: int = Field(
        256 * 2**20,
        ge=1,
        description="Maximum bytes that all requests of a process use together, from their bodies "
        "to their answers; above it, requests are answered 503. A process uses up to 100 MiB in addition.",
    )
    max_connections: int = Field(
        1000,
        ge=1,
        description="Maximum HTTP connections of a process, lower if its limit of open files allows fewer. "
        "Beyond it a new connection replaces one that waits for its client, or is answered 503.",
    )
    max_connections_per_address: int = Field(
        0,
        ge=0,
        description="Maximum connections per address (IPv6: per /64); 0: all but a tenth. Behind a proxy, "
        "whose address all connections have, set it to max_connections.",
    )
    max_header_bytes: int = Field(
        16 * 2**10, ge=1024, description="Maximum bytes of a request's headers; more are answered 431."
    )
    max_headers: int = Field(64, ge=8, description="Maximum headers of a request; more are answered 431.")
    read_seconds: float = Field(
        10,
        gt=0,
        description="Maximum seconds for a request's headers, and then its body, to arrive "
        "(then 408), for its answer to be read, and for a TLS handshake, also of syslog (then the "
        "connection is closed).",
    )

    syslog_host: str = Field("127.0.0.1", description="Address to listen on for syslog.")
    syslog_udp_port: int = Field(0, ge=0, le=65535, description="Port for syslog over UDP; 0 is off.")
    syslog_tcp_port: int = Field(0, ge=0, le=65535, description="Port for syslog over TCP; 0 is off.")
    syslog_tls_port: int = Field(
        0, ge=0, le=65535, description="Port for syslog over TLS (RFC 5425, usually 6514); 0 is off."
    )
    syslog_message_bytes: int = Field(
        64 * 2**10, ge=480, description="Maximum bytes of a syslog message; longer ones are cut."
    )
    syslog_queue_bytes: int = Field(
        16 * 2**20,
        ge=1,
        description="Maximum bytes of UDP messages that wait for Kafka; above it, messages are lost.",
    )
    syslog_connections: int = Field(
        500,
        ge=1,
        description="Maximum syslog connections. When all are in use, a new address replaces the "
        "connection with the longest silence at the address with most connections.",
    )
    syslog_idle_seconds: float = Field(
        900, gt=0, description="Seconds of silence after which a syslog connection is closed."
    )
    syslog_events_per_second: float | None = Field(
        None, gt=0, description="Maximum syslog messages per second of all senders together."
    )
    syslog_bytes_per_second: float | None = Field(
        None, gt=0, description="Maximum bytes of syslog per second of all senders together."
    )
    syslog_source_events_per_second: float | None = Field(
        None,
        gt=0,
        description="Maximum syslog messages per second of one address: above it, connections wait and "
        "datagrams are dropped and counted.",
    )
    syslog_source_bytes_per_second: float | None = Field(
        None, gt=0, description="Maximum bytes of syslog per second of one address."
    )
    syslog_networks: str = Field(
        "",
        description="Networks that may send syslog (10.1.0.0/16, 2001:db8::/32), comma-separated; all "
        "addresses if empty.",
    )

    linger_ms: float = Field(
        5,
        ge=0,
        le=1000,
        description="Milliseconds between two sends of batches to Kafka; after a longer pause a batch "
        "is sent at once.",
    )
    compression: Literal["none", "gzip", "lz4", "zstd"] = Field(
        "none", description="Compression of batches to Kafka."
    )
    deadline_seconds: float = Field(
        10, gt=0, description="Maximum seconds to wait for Kafka's acknowledgement; then the answer is 503."
    )
    stuck_producer_seconds: float = Field(
        15,
        gt=0,
        description="Seconds without an answer to a batch after which the Kafka producer counts as "
        "stuck and is replaced.",
    )
    retry_after_seconds: int = Field(2, ge=1, description="Seconds in the Retry-After header of 503 answers.")
    grace_seconds: float = Field(
        20,
        gt=0,
        description="Maximum seconds from SIGTERM to exit; at least 7 more than the deadline "
        "and drain_seconds, so that every request is answered.",
    )
    drain_seconds: float = Field(
        0,
        ge=0,
        description="Seconds for which the gateway continues to serve after SIGTERM, while /readyz is 503 "
        "and answers have Connection: close. It must be longer than a load balancer takes to react.",
    )
    keep_alive_seconds: int = Field(
        75,
        ge=1,
        description="Maximum seconds of silence between two requests of a connection; longer than the "
        "load balancer's.",
    )

    @field_validator("syslog_networks")
    @classmethod
    def _are_networks(cls, value: str) -> str:
        _networks(value)
        return value

    @model_validator(mode="after")
    def _no_empty_key(self) -> Self:
        # Read as no key, it would open the gateway to all senders.
        if "dev_key" in self.model_fields_set and not self.dev_key.get_secret_value().strip():
            raise ValueError("dev_key is set and empty: give a key, or unset it to have none")
        return self

    @model_validator(mode="after")
    def _time_to_answer(self) -> Self:
        minimum = self.deadline_seconds + self.drain_seconds + STOP_SECONDS + 1
        if self.grace_seconds < minimum:
            raise ValueError(
                f"grace_seconds must be at least {minimum:g}, 7 more than deadline_seconds and drain_seconds"
            )
        return self

    @model_validator(mode="after")
    def _whole_certificates(self) -> Self:
        require_certificate(
            self.tls_cert_file,
            self.tls_key_file,
            self.tls_client_ca_file,
            is_needed=bool(self.syslog_tls_port),
        )
        return self

    def tls(self) -> ssl.SSLContext | None:
        """Return the listeners' TLS context; None without a certificate.

        Raises:
            OSError: a file cannot be read or used.
        """
        return context_if_given(self.tls_cert_file, self.tls_key_file, self.tls_client_ca_file)

    @property
    def event_lines_at_level(self) -> int:
        """Return the maximum lines per second about accepted events at the configured log level."""
        return event_lines.lines_at_level(self.event_lines, self.log_level)

    @property
    def origins(self) -> frozenset[bytes]:
        """Return the origins of `cors_origins`, as bytes of the Origin header."""
        return frozenset(each.strip().encode() for each in self.cors_origins.split(",") if each.strip())

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """Return the networks of `syslog_networks`."""
        return _networks(self.syslog_networks)


def _networks(value: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(each.strip()) for each in value.split(",") if each.strip())
