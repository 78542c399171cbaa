"""The settings of compaction.  Its storage, Kafka and registry are those of the other services."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.lake.compaction.policy import Policy

_MIB = 1024 * 1024


class CompactionSettings(BaseSettings):
    """Environment variables `ONRAMP_COMPACTION_…`."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_COMPACTION_", frozen=True, hide_input_in_errors=True)

    http_host: str = Field(
        "127.0.0.1", description="Address to listen on for /healthz, /readyz, /status and /metrics."
    )
    http_port: int = Field(8088, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    round_seconds: float = Field(60.0, gt=0, description="Seconds between two rounds over all tables.")
    min_small_files: int = Field(
        16, ge=2, description="Small files of one date at which these files are rewritten."
    )
    small_mib: int = Field(32, ge=1, description="Size in MiB below which a file is small.")
    target_mib: int = Field(128, ge=1, description="Size in MiB of rewritten files.")
    idle_seconds: float = Field(
        3600.0,
        ge=0,
        description="Seconds without new events of an ended date before its files are rewritten once more.",
    )
    checkpoint_commits: int = Field(
        20,
        ge=1,
        description="Commits between two checkpoints of a table's log: they bound the time to open it.",
    )
    retention_hours: int = Field(
        168,
        ge=1,
        description="Hours after which replaced files are deleted: longer queries and older versions of a "
        "table lose their files.",
    )
    vacuum_hours: float = Field(24.0, gt=0, description="Hours between two searches for files to delete.")
    confirm_seconds: float = Field(
        3600.0,
        ge=0,
        description="Seconds between the two observations of an expired date before `keep_days` drops it.",
    )
    log_level: str = Field("INFO", description="Level of the JSON log.")

    @property
    def policy(self) -> Policy:
        """Return the limits of compaction."""
        return Policy(
            min_small_files=self.min_small_files,
            small_bytes=self.small_mib * _MIB,
            target_bytes=self.target_mib * _MIB,
            idle_seconds=self.idle_seconds,
        )
