"""The reason why a partition waits: a table does not take its events, or its log was cut."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """The table (empty for a reason of the partition's own), a code, and the next try's time (monotonic)."""

    table: str
    code: str
    detail: str
    retry_at: float
