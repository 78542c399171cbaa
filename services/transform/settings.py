"""The transform service's settings.  Its Kafka and its registry are those of the other services."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class TransformSettings(BaseSettings):
    """Environment variables `ONRAMP_TRANSFORM_…`."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_TRANSFORM_", frozen=True, hide_input_in_errors=True)

    http_host: str = Field(
        "127.0.0.1", description="Address to listen on for /healthz, /readyz, /status and /metrics."
    )
    http_port: int = Field(8086, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    master: str = Field(
        "local[16]",
        description="Spark master: the place where lane runs are tasks, and the number of slots. A slot "
        "of `local` is a thread, not a core; a function that never ends occupies one.",
    )
    driver_memory: str = Field(
        "512m", description="Heap of the Spark driver's JVM; the default is about the minimum for Spark."
    )
    poll_ms: int = Field(
        200, ge=10, le=60_000, description="Milliseconds between two requests for the ends of source topics."
    )
    run_seconds: float = Field(
        60.0, gt=0, description="Maximum seconds of a lane run while every lane of all transforms has a slot."
    )
    short_run_seconds: float = Field(
        5.0, gt=0, description="Maximum seconds of a lane run while there are more lanes than slots."
    )
    max_event_bytes: int = Field(
        900_000,
        ge=1,
        description="Maximum bytes of an output, as ONRAMP_INGEST_MAX_EVENT_BYTES of the gateway; a larger "
        "one parks its event.",
    )
    environments: dict[str, str] = Field(
        default_factory=dict,
        description="Environments with packages: a JSON object of name to the path of a Python executable.",
    )
    tracers: bool = Field(
        False,
        description="Whether the built-in transform of tracers runs while the registry has a deployed "
        "transform; ONRAMP_TRACER_TRANSFORM_URLS of the tracer names this service.",
    )
    log_level: str = Field("INFO", description="Level of the JSON log.")
