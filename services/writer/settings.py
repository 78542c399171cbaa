"""What an operator sets of the writer.  Frozen, checked at boot, passed as arguments."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.writer.model.connection_budget import LEAST_CONNECTIONS
from services.writer.model.routes import OPEN_SCHEMAS, is_closed


class DatabaseSettings(BaseModel):
    """What `ONRAMP_WRITER_DATABASES` says of one database; a mere string is its `dsn`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    dsn: SecretStr | None = Field(
        None,
        description="libpq connection string or URI of the role that writes; TLS (`sslmode`, `sslrootcert`) "
        "and a password file (`passfile`) are options of it. The default database has `ONRAMP_WRITER_DSN`.",
    )
    ddl_dsn: SecretStr | None = Field(
        None,
        description="The same for the role that owns Onramp's tables and makes landing tables; "
        "the one that writes unless set.",
    )
    schemas: tuple[str, ...] = Field(
        OPEN_SCHEMAS, description="Schemas that packets and the registry may address, by their exact names."
    )
    max_connections: int | None = Field(
        None,
        ge=LEAST_CONNECTIONS,
        description="Most connections of the writer, all tasks together: six for the driver and two for "
        "each task of a batch, so the smallest bound decides how many tasks a batch has. "
        "Unless set, as many as the Spark slots need.",
    )
    max_rows_per_second: float | None = Field(
        None,
        ge=1,
        description="Most rows a second that are sent to it, all tasks together, with at most one second's "
        "rows at once. Events for it wait in Kafka, and with them what follows in their partitions; other "
        "partitions go on.",
    )
    silent_s: float | None = Field(None, ge=0.2, description="Instead of the writer's own.")
    statement_timeout_ms: int | None = Field(None, ge=0, description="Instead of the writer's own.")
    lock_timeout_ms: int | None = Field(None, ge=0, description="Instead of the writer's own.")
    idle_in_transaction_ms: int | None = Field(None, ge=1000, description="Instead of the writer's own.")

    @model_validator(mode="before")
    @classmethod
    def _from_a_string(cls, value: Any) -> Any:
        return {"dsn": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _opens_no_closed_schema(self) -> Self:
        if closed := [s for s in self.schemas if is_closed(s)]:
            raise ValueError(f"no message may write to {', '.join(closed)}: leave it out of schemas")
        return self


class WriterSettings(BaseSettings):
    """Environment variables `ONRAMP_WRITER_…`."""

    # A value that is wrong may hold a password: the message names the place and not the value.
    model_config = SettingsConfigDict(env_prefix="ONRAMP_WRITER_", frozen=True, hide_input_in_errors=True)

    dsn: SecretStr = Field(
        SecretStr("postgresql://onramp@127.0.0.1:5432/onramp"),
        description="libpq connection string or URI of the default database.",
    )
    database: str = Field(
        "onramp",
        min_length=1,
        description="Public name (vanity) of the default database in messages and metrics.",
    )
    databases: dict[str, DatabaseSettings] = Field(
        default_factory=dict,
        description="Further databases: a JSON object of public name to connection string, or to an object "
        "of the settings below. Under the default database's name: its settings.",
    )
    topics: str = Field(
        r"events\..+",
        description="Regular expression of the topics that the writer reads; the whole name must match.",
    )
    master: str = Field("local[2]", description="Spark master.")
    spark_jars: str = Field("", description="Comma-separated paths of the Spark-Kafka connector's jars.")
    driver_memory: str = Field(
        "768m", description="Heap of Spark's driver (with a local master: of everything)."
    )
    batch_events: int = Field(
        120_000,
        ge=1,
        description="Most events of one batch; bounds memory and the time that a crash repeats.",
    )
    batch_bytes: int = Field(
        64 << 20,
        ge=1,
        description="About how many bytes of events a batch has at most, as large as each topic's last "
        "ones were; bounds memory, which takes several times as much.",
    )
    batch_s: float = Field(
        1.5,
        gt=0,
        description="How long a batch should take: its size follows what the last ones took.",
    )
    small_batch: int = Field(
        5_000,
        ge=0,
        description="Batches of up to so many events are read by the driver, all partitions at once, and "
        "settled by one task; larger ones are read by Spark's tasks. 0: all are.",
    )
    idle_ms: int = Field(20, ge=1, description="Pause before Kafka is asked again when nothing was waiting.")
    discover_ms: int = Field(
        500,
        ge=10,
        description="How often new topics and partitions are looked for; a new event name waits this long.",
    )
    upkeep_s: float = Field(
        60.0,
        gt=0,
        description="How often the writer compares the ledgers and its group offsets, between two batches.",
    )
    http_host: str = Field("127.0.0.1", description="Address of /healthz, /readyz and /metrics.")
    http_port: int = Field(8081, ge=0, le=65535, description="Port of /healthz, /readyz and /metrics.")
    standby: bool = Field(
        True,
        description="A writer that finds another one alive waits until that is gone. false: it takes over at "
        "once, and the other ends.",
    )
    stop_margin_s: float = Field(
        5.0,
        gt=0,
        description="How long SIGTERM lets the running batch finish before it is cancelled and rolled back.",
    )
    silent_s: float = Field(
        1.0,
        ge=0.2,
        description="A database that answers nothing for this long is out; one that is busy says so when "
        "it is asked beside its work, however long that takes.",
    )
    statement_timeout_ms: int = Field(60_000, ge=0, description="Postgres statement_timeout of landing.")
    lock_timeout_ms: int = Field(
        2_000,
        ge=0,
        description="Postgres lock_timeout of landing: a table that is locked for longer is blocked, its "
        "events wait and the others land.",
    )
    idle_in_transaction_ms: int = Field(
        60_000,
        ge=1000,
        description="Postgres ends a writer's transaction that was silent for this long.",
    )
    pause_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="An event type pauses when more than this share of its last events is parked; 1: never.",
    )
    pause_window: int = Field(
        10_000, ge=1, description="How many of an event type's last events the share is taken of."
    )
    pause_least: int = Field(
        1_000, ge=1, description="An event type is not judged before so many of its events were decided."
    )
    keep_drained_s: float = Field(
        86_400.0,
        gt=0,
        description="How long a record stays on onramp.system_errors at least; what has drained by then is "
        "deleted.",
    )
    metrics_s: float = Field(
        5.0, gt=0, description="How often /metrics is told what only the databases and Kafka know."
    )
    log_events: bool = Field(
        False,
        description="Log a line for every event and destination: id, receipt, step, outcome; never values.",
    )
    log_level: str = Field("INFO", description="Log level.")

    @model_validator(mode="after")
    def _every_database_has_an_address(self) -> Self:
        if missing := [n for n, d in self.databases.items() if d.dsn is None and n != self.database]:
            raise ValueError(f"databases: {', '.join(missing)} has no dsn")
        return self
