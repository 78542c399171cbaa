"""The plan of `onramp up`: the parts to start, and their addresses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stack.addresses import (
    ADMIN_PORT,
    COMPACTION_PORT,
    GATEWAY_PORT,
    KAFKA_PORT,
    LAKE_PORT,
    POSTGRES_PORT,
    TRACER_PORT,
    TRANSFORM_PORT,
    WRITER_PORT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parts to start and their addresses; a usual port that is in use is replaced."""

    data_dir: Path
    bootstrap: str | None = None
    """Brokers to use instead of starting one."""
    dsn: str | None = None
    """A database to use instead of starting one."""
    brokers: int = 1
    """The number of brokers to start: 1, or 3 with every topic on all of them."""
    gateway_env: Mapping[str, str] = field(default_factory=dict)
    writer_env: Mapping[str, str] = field(default_factory=dict)
    kafka_port: int = KAFKA_PORT
    postgres_port: int = POSTGRES_PORT
    gateway_port: int = GATEWAY_PORT
    writer_port: int = WRITER_PORT
    admin_port: int = ADMIN_PORT
    tracer_port: int = TRACER_PORT
    transform_port: int = TRANSFORM_PORT
    lake_port: int = LAKE_PORT
    compaction_port: int = COMPACTION_PORT
    prometheus: bool = False
    """Whether to start a Prometheus that scrapes the services."""
    lake: bool = False
    """Whether to land every event type in Delta tables in the data folder as well."""
    source_demo: bool = False
    """Whether to create a second database of flights and capture it; it needs the embedded Postgres."""

    @property
    def lake_folder(self) -> Path:
        """The folder of the lake's tables."""
        return self.data_dir / "lake"

    @property
    def lake_env(self) -> dict[str, str]:
        """The variables of services that read the lake; none without a lake."""
        return {"ONRAMP_LAKE_URL": str(self.lake_folder)} if self.lake else {}
