"""The agent's settings."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class AgentSettings(BaseSettings):
    """Settings of the agent, which configures Kafka Connect to capture sources."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_AGENT_", frozen=True, hide_input_in_errors=True)

    connect_url: str = Field(
        "http://127.0.0.1:8083",
        description="Kafka Connect's REST interface. It accepts any configuration without a login: "
        "leave it on loopback.",
    )
    http_host: str = Field("127.0.0.1", description="Address of /healthz, /readyz and /metrics.")
    http_port: int = Field(8084, ge=0, le=65535, description="Port of /healthz, /readyz and /metrics.")
    dsn_folder: Path | None = Field(
        None,
        description="Folder with a file for each source's DSN, named as its variable, and its password "
        "alone, named with _PASSWORD. Files come before environment variables and are read at each use: a "
        "source is added without a restart. Kafka Connect must be allowed to read the folder "
        "(config.providers.directory).",
    )
    poll_seconds: float = Field(
        1.0, gt=0, description="Seconds between two polls of a source: the longest wait of a new column."
    )
    topic_retention_hours: int = Field(
        168,
        ge=1,
        description="Hours for which topics retain changes: the longest outage of the writer. A shorter "
        "retention is raised.",
    )
    log_level: str = Field("INFO", description="Minimum level that is logged: DEBUG, INFO, WARNING or ERROR.")
