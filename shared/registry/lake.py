"""The `lake` options of an event type in ``onramp.yaml``: partitioning, start and retention of its table."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.lake.lake_tables import Partitioning


class LakeOptions(BaseModel):
    """The options of an event type's table in the lake."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition: Partitioning = Field(
        Partitioning.DAY, description="Partitioning of the table, fixed at its creation: day, month or none."
    )
    start: Literal["earliest", "now"] = Field(
        "earliest", description="Start of a new destination: the oldest event on Kafka, or new events alone."
    )
    keep_days: int | None = Field(
        None, ge=1, le=100_000, description="Days after which compaction drops the dates of the table."
    )
