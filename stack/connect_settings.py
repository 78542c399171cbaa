"""The settings of Kafka Connect's image; the image's Kafka is that of the other services."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ConnectSettings(BaseSettings):
    """Settings of `python -m stack.connect_worker`, the entry point of deploy/connect.Dockerfile."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_CONNECT_", frozen=True, hide_input_in_errors=True)

    host: str = Field(
        "127.0.0.1",
        description="Address or name of the REST interface. It accepts any configuration without a login: "
        "only the agent must reach it.",
    )
    port: int = Field(8083, ge=1, le=65535, description="Port of the REST interface.")
    folder: Path = Field(Path("/tmp/connect"), description="Folder of the worker's configuration.")  # noqa: S108
    sources_folder: Path | None = Field(
        None, description="Folder with the passwords of sources, the same as ONRAMP_AGENT_DSN_FOLDER."
    )
    heap_mb: int = Field(256, ge=64, description="Java heap of the worker in MiB.")
