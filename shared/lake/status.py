"""The `/status` of the lake service and of compaction, as other services read them.

Fields that a reader does not know are ignored, so versions may differ.
"""

import msgspec


class MaintainedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table at the end of the last round over it; `error` is set if that round failed."""

    rows: int | None = None
    files: int = 0
    small_files: int = 0
    bytes: int = 0
    last_compaction_at: float | None = None
    last_round_at: float | None = None
    error: str = ""


class CompactionStatus(msgspec.Struct, frozen=True):
    """The status of compaction: the tables by name."""

    maintained: dict[str, MaintainedTable]


class LandedTable(msgspec.Struct, frozen=True):
    """A table that the lake service has written to since its start, or that is halted."""

    rows: int = 0
    last_commit_at: float = 0.0
    code: str = ""
    reason: str = ""


class LakeTopic(msgspec.Struct, frozen=True):
    """The lag of a topic, and the partitions that wait with the reason."""

    lag_events: int = 0
    behind_seconds: float = 0.0
    waiting: dict[str, str] = {}


class LakeServiceStatus(msgspec.Struct, frozen=True):
    """The status of the lake service: tables and topics by name."""

    tables: dict[str, LandedTable]
    topics: dict[str, LakeTopic]
    trouble: str = ""
