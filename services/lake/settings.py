"""The lake service's settings.  Its Kafka and its registry are those of the other services."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class LakeSettings(BaseSettings):
    """Environment variables `ONRAMP_LAKE_…` of the service; its storage has another class."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_LAKE_", frozen=True, hide_input_in_errors=True)

    all: bool = Field(
        False,
        description="Whether every event type has a table in the lake, also without a destination there.",
    )
    http_host: str = Field(
        "127.0.0.1", description="Address to listen on for /healthz, /readyz, /status and /metrics."
    )
    http_port: int = Field(8087, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    master: str = Field(
        "local[2]", description="Spark master: the place where tasks run, and the number of their slots."
    )
    driver_memory: str = Field(
        "512m", description="Heap of the Spark driver's JVM; the default is about the minimum for Spark."
    )
    batch_seconds: float = Field(
        15.0,
        gt=0,
        description="Seconds between two batches while fewer than ONRAMP_LAKE_BATCH_EVENTS events wait: the "
        "age at which an event is in its table, and one file for each table and date.",
    )
    batch_events: int = Field(
        200_000, ge=1, description="Events that begin a batch before its time; also the maximum of a batch."
    )
    flush_bytes: int = Field(
        64 << 20,
        ge=1 << 16,
        description="Bytes of rows at which a task commits before the end of its share; bounds its memory.",
    )
    poll_ms: int = Field(
        500,
        ge=10,
        le=60_000,
        description="Milliseconds between two polls of registry, topics and ends.",
    )
    new_counter_seconds: float = Field(
        60.0,
        ge=0,
        description="Seconds that the counter of a topic's lost events is shown at 0 on /metrics before it "
        "counts: at least two scrapes, or Prometheus sees no increase.",
    )
    log_level: str = Field("INFO", description="Level of the JSON log.")
