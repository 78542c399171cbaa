"""The merger's settings.  Its databases are the writer's (`databases`)."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class MergerSettings(BaseSettings):
    """Environment variables `ONRAMP_MERGER_…`."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_MERGER_", frozen=True, hide_input_in_errors=True)

    poll_seconds: float = Field(
        1.0,
        gt=0,
        description="Seconds between two polls of landing; the writer also sends a notification.",
    )
    retry_seconds: float = Field(
        5.0,
        gt=0,
        description="Seconds until a suspended table is retried.",
    )
    max_parallel_tables: int = Field(
        4,
        ge=1,
        le=64,
        description="Maximum number of tables that are merged at a time in a database, on a connection each.",
    )
    max_changes: int = Field(
        100_000,
        ge=1,
        description="Maximum number of changes in one merge; larger transactions become visible in several.",
    )
    trim_seconds: float = Field(
        600.0,
        gt=0,
        description="Seconds between two trims of landed changes older than keep_landing.",
    )
    log_level: str = Field("INFO", description="Level of the JSON log.")
