"""The merger's settings.  Its databases are the writer's (`databases`)."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class MergerSettings(BaseSettings):
    """Environment variables `ONRAMP_MERGER_…`."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_MERGER_", frozen=True, hide_input_in_errors=True)

    poll_seconds: float = Field(
        1.0,
        gt=0,
        description="Seconds between two looks at what landed; who lands changes says so at once.",
    )
    retry_seconds: float = Field(
        5.0,
        gt=0,
        description="Seconds until a table that is held is tried again: it may be fixed.",
    )
    max_parallel_tables: int = Field(
        4, ge=1, le=64, description="Tables of a database that are merged at a time, each on a connection."
    )
    max_changes: int = Field(
        100_000,
        ge=1,
        description="Most changes of one merge; a larger transaction of a source becomes visible in several.",
    )
    trim_seconds: float = Field(
        600.0,
        gt=0,
        description="Seconds between two looks for landed changes older than keep_landing.",
    )
    log_level: str = Field("INFO", description="Level of the JSON log.")
