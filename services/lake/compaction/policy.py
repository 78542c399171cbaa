"""Chooses the files of a partition to rewrite; no input or output.

Files are rewritten when many small ones exist, and once more when the partition's dates have ended. A rewrite
of a few files at each late event would write the same rows again and again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from shared.lake.delta_files import DataFile, Partition
from shared.lake.lake_tables import DATE, MONTH

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits of compaction: sizes in bytes, ages in seconds."""

    min_small_files: int = 16
    small_bytes: int = 32 * _MIB
    target_bytes: int = 128 * _MIB
    #: Seconds without a new file after which an ended partition is closed.
    idle_seconds: float = 3600.0
    #: Limits of one rewrite, so that a kill repeats little work.
    max_rewrite_bytes: int = 1024 * _MIB
    max_rewrite_files: int = 2000
    #: Small partitions of one commit.
    max_commit_partitions: int = 20


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files to rewrite in one commit.  `closes`: the partition's dates have ended, and all files fit."""

    files: Sequence[DataFile]
    closes: bool


def choose(policy: Policy, partition: Partition, files: Sequence[DataFile], now: datetime) -> Rewrite | None:
    """Return the next rewrite of the partition, or None if its files stay as they are."""
    has_ended = has_partition_ended(partition, now)
    rest = [file for file in files if file.bytes < policy.target_bytes]
    small = [file for file in rest if file.bytes < policy.small_bytes]
    if len(small) >= policy.min_small_files:
        return _bounded(policy, rest if has_ended else small, closes=has_ended)
    if not has_ended or len(rest) <= 1 or any(file.is_closed for file in files):
        return None
    newest = max(file.added_ms for file in files) / 1000
    return _bounded(policy, rest, closes=True) if now.timestamp() - newest >= policy.idle_seconds else None


def has_partition_ended(partition: Partition, now: datetime) -> bool:
    """Return whether all dates of a partition are before the UTC day of `now`."""
    end = end_of(partition)
    return end is not None and end <= now.astimezone(UTC).date()


def end_of(partition: Partition) -> date | None:
    """Return the first day after a partition's day or month; None for a partition without a date."""
    if partition.value is None or partition.column not in (DATE, MONTH):
        return None
    try:
        first = date.fromisoformat(partition.value)
        if partition.column == DATE:
            return first + timedelta(days=1)
        return (first.replace(day=1) + timedelta(days=32)).replace(day=1)
    except (ValueError, OverflowError):
        return None


def _bounded(policy: Policy, files: Sequence[DataFile], *, closes: bool) -> Rewrite | None:
    """Return a rewrite of the first files within the limits; None if fewer than two fit."""
    size = 0
    chosen: list[DataFile] = []
    for file in files:
        size += file.bytes
        if chosen and (size > policy.max_rewrite_bytes or len(chosen) == policy.max_rewrite_files):
            break
        chosen.append(file)
    is_whole = len(chosen) == len(files)
    return Rewrite(chosen, closes=closes and is_whole) if len(chosen) > 1 else None
