"""What an operator sets of the writer.  Frozen, checked at boot, passed as arguments."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class WriterSettings(BaseSettings):
    """Environment variables `ONRAMP_WRITER_…`."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_WRITER_", frozen=True)

    dsn: SecretStr = Field(
        SecretStr("postgresql://onramp@127.0.0.1:5432/onramp"),
        description="libpq connection string or URI of the default database.",
    )
    database: str = Field(
        "onramp",
        min_length=1,
        description="Public name (vanity) of the default database in messages and metrics.",
    )
    databases: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Further databases: a JSON object of public name to libpq connection string or URI.",
    )
    topics: str = Field(
        r"events\..+",
        description="Regular expression of the topics that the writer reads; the whole name must match.",
    )
    master: str = Field("local[2]", description="Spark master.")
    spark_jars: str = Field("", description="Comma-separated paths of the Spark-Kafka connector's jars.")
    driver_memory: str = Field(
        "1g", description="Heap of Spark's driver (with a local master: of everything)."
    )
    batch_events: int = Field(
        120_000,
        ge=1,
        description="Most events of one batch; bounds memory and the time that a crash repeats.",
    )
    idle_ms: int = Field(20, ge=1, description="Pause before Kafka is asked again when nothing was waiting.")
    discover_ms: int = Field(
        500,
        ge=10,
        description="How often new topics and partitions are looked for; a new event name waits this long.",
    )
    upkeep_s: float = Field(
        60.0, gt=0, description="How often an idle writer compares the ledgers and its group offsets."
    )
    http_host: str = Field("127.0.0.1", description="Address of /healthz, /readyz and /metrics.")
    http_port: int = Field(8081, ge=0, le=65535, description="Port of /healthz, /readyz and /metrics.")
    stop_margin_s: float = Field(
        5.0,
        gt=0,
        description="How long SIGTERM lets the running batch finish before it is cancelled and rolled back.",
    )
    statement_timeout_ms: int = Field(60_000, ge=0, description="Postgres statement_timeout of landing.")
    lock_timeout_ms: int = Field(10_000, ge=0, description="Postgres lock_timeout of landing.")
    idle_in_transaction_ms: int = Field(
        60_000,
        ge=1000,
        description="Postgres ends a writer's transaction that was silent for this long.",
    )
    log_level: str = Field("INFO", description="Log level.")
