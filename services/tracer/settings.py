"""The tracer's settings.  Its Kafka and its databases are those of the other services."""

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.tracer.syslog import SyslogEntrance
from shared.lake.lake_tables import TABLE_NAME
from shared.service_urls import ServiceUrls, split_urls
from shared.writer_databases import WriterDatabases


class TracerSettings(BaseSettings):
    """Environment variables `ONRAMP_TRACER_…`."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_TRACER_", frozen=True, hide_input_in_errors=True)

    host: str = Field("127.0.0.1", description="Address to listen on for /readyz, /status and /metrics.")
    port: int = Field(8085, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    api_key: SecretStr = Field(
        SecretStr(""),
        description="The tracer's own API key at the gateways; it needs the event type onramp_probe alone.",
    )
    api_key_file: Path | None = Field(
        None, description="The file with that key instead; it is read at the start."
    )
    interval_seconds: float = Field(
        10.0, gt=0, description="Seconds between two rounds; each sends one tracer into each entrance."
    )
    late_seconds: float = Field(30.0, gt=0, description="Seconds after which a tracer without a row is late.")
    lost_seconds: float = Field(
        600.0,
        gt=0,
        description="Seconds after which an accepted tracer without a row is lost, unless the writer reports "
        "its database as down, halted or draining.",
    )
    file: Path = Field(
        Path("tracers.jsonl"),
        description="File of the tracers of the last day: each is written there, with fsync, before it is "
        "sent.",
    )
    databases: str = Field(
        "",
        description="Names of the databases in which tracers are expected, separated by commas; without it "
        "the writer's default one. For others the registry routes onramp_probe there, and grants its topic "
        "the table public.onramp_probe.",
    )
    syslog_urls: str = Field(
        "",
        description="Syslog ports of the gateways, as tcp://host:port or udp://host:port, separated by "
        "commas; each is an entrance of its own. Its messages land among those of users.",
    )
    transform_urls: str = Field(
        "",
        description="URLs of the transform services, separated by commas: while one runs the transform of "
        "tracers (ONRAMP_TRANSFORM_TRACERS), it is an entrance of its own, through the first gateway.",
    )
    lake_table: str = Field(
        "",
        description="Table of the lake in which the tracers of the gateways are expected, such as "
        "onramp_probe. The registry, or ONRAMP_LAKE_ALL, routes onramp_probe there, and ONRAMP_LAKE_URL is "
        "the storage. Empty: the lake is not watched.",
    )
    lake_seconds: float = Field(
        300.0,
        gt=0,
        description="Seconds after which a tracer without a row in the lake gets the result not_in_lake.",
    )
    kafka: bool = Field(True, description="Whether a packet is written straight to Kafka as well.")
    new_counter_seconds: float = Field(
        60.0,
        ge=0,
        description="Seconds that a new counter is shown at 0 on /metrics before it counts: at least two "
        "scrapes, or Prometheus sees no increase.",
    )
    log_level: str = Field("INFO", description="Level of the JSON log.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.late_seconds >= self.lost_seconds:
            raise ValueError("late_seconds is less than lost_seconds")
        self.syslog()
        if self.lake_table and not TABLE_NAME.fullmatch(self.lake_table):
            raise ValueError(f"lake_table is no table of the lake: {TABLE_NAME.pattern}")
        for parts in map(urlsplit, self.transforms()):
            if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
                raise ValueError("each URL of transform_urls is http:// or https://, a host and a port")
        return self

    def syslog(self) -> list[SyslogEntrance]:
        """Return the entrances of `syslog_urls`.  Raises `ValueError`."""
        urls = (url.strip() for url in self.syslog_urls.split(","))
        return [SyslogEntrance.of(url) for url in dict.fromkeys(urls) if url]

    def transforms(self) -> tuple[str, ...]:
        """Return the URLs of the transform services."""
        return split_urls(self.transform_urls)

    def key(self) -> str:
        """Return the API key.  Raises `OSError` for a file that cannot be read."""
        if self.api_key_file is not None:
            return self.api_key_file.read_text("utf-8").strip()
        return self.api_key.get_secret_value()

    def destinations(self, known: WriterDatabases) -> dict[str, str]:
        """Return the DSNs of `databases`, or of the writer's default one.

        Raises `ValueError` for a name that is not configured.
        """
        dsns = known.by_name()
        names = (name.strip() for name in self.databases.split(","))
        chosen = [name for name in dict.fromkeys(names) if name] or [known.database]
        if unknown := [name for name in chosen if name not in dsns]:
            raise ValueError(f"no DSN is configured for {', '.join(unknown)}")
        return {name: dsns[name] for name in chosen}


class TracedSettings(ServiceUrls):
    """Addresses that the tracer uses: the gateways' port for events, and the writer."""

    gateway_urls: str = Field(
        "http://127.0.0.1:8080",
        description="URLs of the gateways that the tracer sends events to, separated by commas; each is an "
        "entrance of its own.",
    )
    writer_urls: str = Field(
        "http://127.0.0.1:8081",
        description="URLs of the writers, whose `/readyz` say which databases are down, halted or draining.",
    )
