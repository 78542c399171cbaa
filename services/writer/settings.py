"""The writer's settings.  Frozen, checked at the start, passed as arguments."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.writer.model.connection_budget import MIN_CONNECTIONS
from services.writer.model.routes import OPEN_SCHEMAS, is_closed
from shared import event_lines


class DatabaseSettings(BaseModel):
    """The settings of one database in `ONRAMP_WRITER_DATABASES`; a plain string is its `dsn`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    dsn: SecretStr | None = Field(
        None,
        description="libpq connection string or URI of the role that writes; TLS (`sslmode`, `sslrootcert`) "
        "and a password file (`passfile`) are options of it. The default database has `ONRAMP_WRITER_DSN`.",
    )
    ddl_dsn: SecretStr | None = Field(
        None,
        description="The same for the role that owns Onramp's tables and creates landing tables; "
        "`dsn` unless set.",
    )
    schemas: tuple[str, ...] = Field(
        OPEN_SCHEMAS, description="Schemas that packets and the registry may address, by their exact names."
    )
    max_connections: int | None = Field(
        None,
        ge=MIN_CONNECTIONS,
        description="Maximum connections of the writer to the database, all tasks together: six for the "
        "driver and two for each task of a batch. The smallest limit of all databases decides how many tasks "
        "a batch has. Default: as many as the Spark slots need.",
    )
    max_rows_per_second: float | None = Field(
        None,
        ge=1,
        allow_inf_nan=False,
        description="Maximum rows per second sent to the database, all tasks together, in bursts of at most "
        "one second's rows. Events above the limit wait in Kafka, with the later events of their partitions; "
        "other partitions continue.",
    )
    liveness_timeout_seconds: float | None = Field(
        None,
        ge=0.2,
        description="Seconds; replaces ONRAMP_WRITER_LIVENESS_TIMEOUT_SECONDS for this database.",
    )
    statement_timeout_ms: int | None = Field(
        None, ge=0, description="Milliseconds; replaces ONRAMP_WRITER_STATEMENT_TIMEOUT_MS."
    )
    lock_timeout_ms: int | None = Field(
        None, ge=0, description="Milliseconds; replaces ONRAMP_WRITER_LOCK_TIMEOUT_MS."
    )
    idle_in_transaction_ms: int | None = Field(
        None, ge=1000, description="Milliseconds; replaces ONRAMP_WRITER_IDLE_IN_TRANSACTION_MS."
    )

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

    # A wrong value may contain a password: the message names the setting and not the value.
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
        "of the settings below. An object with the default database's name has that database's settings.",
    )
    topics: str = Field(
        r"events\..+",
        description="Regular expression of the topics that the writer reads; the whole name must match.",
    )
    master: str = Field(
        "local[2]", description="Spark master: the place where tasks run, and the number of their slots."
    )
    driver_memory: str = Field(
        "512m", description="Heap of the Spark driver's JVM; the default is about the minimum for Spark."
    )
    batch_events: int = Field(
        120_000,
        ge=1,
        description="Maximum events of one batch; bounds memory, and the work repeated after a crash.",
    )
    batch_bytes: int = Field(
        64 << 20,
        ge=1,
        description="Maximum bytes of events of one batch, estimated from the sizes of each topic's last "
        "events; bounds memory, of which a batch uses several times as much.",
    )
    batch_seconds: float = Field(
        1.5,
        gt=0,
        description="Target seconds for one batch; the batch size follows the duration of the last batches.",
    )
    idle_ms: int = Field(
        20,
        ge=1,
        description="Milliseconds between two polls of Kafka while there is nothing to read; bounds the "
        "latency of the next event and the load of an idle writer.",
    )
    discover_ms: int = Field(
        500,
        ge=10,
        description="Milliseconds between two polls for new topics and partitions: the maximum wait of the "
        "first event of a new topic.",
    )
    reconcile_seconds: float = Field(
        60.0,
        gt=0,
        description="Seconds between two reconciliations of the ledgers with the group's offsets; a "
        "reconciliation runs between two batches.",
    )
    http_host: str = Field("127.0.0.1", description="Address of /healthz, /readyz, /metrics and /figures.")
    http_port: int = Field(
        8081, ge=0, le=65535, description="Port of /healthz, /readyz, /metrics and /figures."
    )
    standby: bool = Field(
        True,
        description="Whether a new writer waits until a running writer has ended. false: the new writer "
        "takes over at once, and the other ends.",
    )
    stop_margin_seconds: float = Field(
        5.0,
        gt=0,
        description="Seconds between SIGTERM and the cancellation of the running batch, which rolls back.",
    )
    liveness_timeout_seconds: float = Field(
        1.0,
        ge=0.2,
        description="Seconds without any answer after which a database counts as unreachable. A busy "
        "database answers a probe in addition to its work, however long the work takes.",
    )
    statement_timeout_ms: int = Field(
        60_000,
        ge=0,
        description="Milliseconds; Postgres' statement_timeout of the writer's sessions. A table whose "
        "statement takes longer is blocked for a while. 0: no limit.",
    )
    lock_timeout_ms: int = Field(
        2_000,
        ge=0,
        description="Milliseconds; Postgres' lock_timeout of the writer's sessions. A table that is locked "
        "for longer is blocked: its events wait, and all other events land.",
    )
    idle_in_transaction_ms: int = Field(
        60_000,
        ge=1000,
        description="Milliseconds after which Postgres ends a transaction of the writer that sends nothing.",
    )
    pause_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Share (0 to 1) of an event type's last events above which parked events pause the type; "
        "1: never.",
    )
    pause_window: int = Field(
        10_000, ge=1, description="Number of an event type's last events over which the share is computed."
    )
    pause_min_events: int = Field(
        1_000, ge=1, description="Minimum number of an event type's events before the type can be paused."
    )
    drained_retention_seconds: float = Field(
        86_400.0,
        gt=0,
        description="Minimum seconds that a record stays on onramp.system_errors; drained records are "
        "deleted after that.",
    )
    metrics_seconds: float = Field(
        5.0,
        gt=0,
        description="Seconds between two updates of the metrics that come from the databases and Kafka.",
    )
    new_counter_seconds: float = Field(
        60.0,
        ge=0,
        description="Seconds that a new counter is shown at 0 on /metrics before it counts: at least two "
        "scrapes. With less, Prometheus records no increase, and the first event of a kind raises no alert.",
    )
    event_lines: int = Field(
        1_000,
        ge=0,
        description="Maximum lines per second that each process logs about single events and their "
        "destinations: id, receipt, step and outcome, never values. Above the limit a sample is logged, "
        "failures first. 0: none.",
    )
    log_level: str = Field("INFO", description="Minimum level that is logged: DEBUG, INFO, WARNING or ERROR.")

    @property
    def event_lines_at_level(self) -> int:
        """How many lines about events a process may log a second, at the level that is logged."""
        return event_lines.lines_at_level(self.event_lines, self.log_level)

    @model_validator(mode="after")
    def _every_database_has_an_address(self) -> Self:
        if missing := [n for n, d in self.databases.items() if d.dsn is None and n != self.database]:
            raise ValueError(f"databases: {', '.join(missing)} has no dsn")
        return self

    @model_validator(mode="after")
    def _no_name_continues_another(self) -> Self:
        """`main.b` would be mistaken for a schema of `main` where a destination is one text."""
        names = {self.database, *self.databases}
        if wrong := sorted(n for n in names for other in names if n.startswith(f"{other}.")):
            raise ValueError(f"databases: {', '.join(wrong)} begins with another database's name and a dot")
        return self
