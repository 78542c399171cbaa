"""Compaction of one table: rewrites one partition after another, and commits several small ones together.

A commit costs as much as the rewrite of some thousand rows, so closing a year of small dates takes twenty
commits rather than 365.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from deltalake import DeltaTable

from services.lake.compaction.delta_replace import Replacement, replace_files
from services.lake.compaction.delta_rewrite import rewrite
from services.lake.compaction.policy import Policy, Rewrite, choose
from shared import failpoints
from shared.lake.delta_files import Partition, read_files


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of one commit.  `superseded`: rewrites that another process made first."""

    partitions: Sequence[Partition]
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    superseded: int

    def as_dict(self) -> dict[str, object]:
        """Return the result as fields of a log entry, and as JSON."""
        return asdict(self) | {"partitions": [str(partition) for partition in self.partitions]}


def due(table: DeltaTable, policy: Policy, now: datetime) -> Iterator[tuple[Partition, Rewrite]]:
    """Yield the next rewrite of each partition that needs one, in order of the partitions."""
    files = read_files(table)
    for partition in sorted(files, key=str):
        if chosen := choose(policy, partition, files[partition], now):
            yield partition, chosen


def compact(
    table: DeltaTable, policy: Policy, now: datetime, *, is_stopped: Callable[[], bool] = lambda: False
) -> Iterator[Compacted]:
    """Rewrite until no partition needs it or `is_stopped`; yield the result of each commit.

    `table` is loaded at its newest version and follows its own commits. Raises `ContendedError`,
    `RowCountError` and errors of the storage.
    """
    is_progressing = True
    while is_progressing and not is_stopped():
        is_progressing = False
        for group in _groups(due(table, policy, now), policy):
            if is_stopped():
                return
            result = _compact_group(table, policy, group)
            is_progressing |= bool(result.partitions)
            yield result


def _groups(
    rewrites: Iterator[tuple[Partition, Rewrite]], policy: Policy
) -> Iterator[Sequence[tuple[Partition, Rewrite]]]:
    """Yield rewrites for one commit each."""
    group: list[tuple[Partition, Rewrite]] = []
    size = 0
    for partition, chosen in rewrites:
        more = sum(file.bytes for file in chosen.files)
        if group and (size + more > policy.target_bytes or len(group) == policy.max_commit_partitions):
            yield group
            group, size = [], 0
        group.append((partition, chosen))
        size += more
    if group:
        yield group


def _compact_group(
    table: DeltaTable, policy: Policy, group: Sequence[tuple[Partition, Rewrite]]
) -> Compacted:
    new: list[Replacement] = [
        rewrite(table, partition, chosen.files, target_bytes=policy.target_bytes, closes=chosen.closes)
        for partition, chosen in group
    ]
    failpoints.reach("lake.compaction_files_written")
    done = replace_files(table, new)
    failpoints.reach("lake.compaction_committed")
    return Compacted(
        partitions=[each.partition for each in done],
        files_before=sum(len(each.sources) for each in done),
        files_after=sum(len(each.actions) for each in done),
        bytes_before=sum(file.bytes for each in done for file in each.sources),
        bytes_after=sum(action.size for each in done for action in each.actions),
        superseded=len(new) - len(done),
    )
