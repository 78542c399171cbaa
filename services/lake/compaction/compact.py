"""Compaction of one table: one partition after another, one commit each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from deltalake import DeltaTable

from services.lake.compaction.data_files import read_files
from services.lake.compaction.policy import Policy, Rewrite, choose
from services.lake.compaction.replace import Outcome, replace_files
from services.lake.compaction.rewrite import rewrite
from shared import failpoints


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of one rewrite.  `files_after` is None for a rewrite that another process superseded."""

    partition: str | None
    files_before: int
    files_after: int | None
    bytes_before: int
    bytes_after: int
    rows: int


def due(table: DeltaTable, policy: Policy, now: datetime) -> Iterator[tuple[str | None, Rewrite]]:
    """Yield the next rewrite of each partition that needs one, in order of the partitions."""
    files = read_files(table)
    for value in sorted(files, key=lambda value: value or ""):
        if chosen := choose(policy, value, files[value], now):
            yield value, chosen


def compact(
    table: DeltaTable, policy: Policy, now: datetime, *, is_stopped: Callable[[], bool] = lambda: False
) -> Iterator[Compacted]:
    """Rewrite until no partition needs it or `is_stopped`; yield each result.

    `table` is loaded at its newest version and follows its own commits. Raises `ContendedError`,
    `RowCountError` and errors of the storage.
    """
    while not is_stopped():
        progress = False
        for value, chosen in due(table, policy, now):
            if is_stopped():
                return
            result = _compact_one(table, policy, value, chosen)
            progress |= result.files_after is not None
            yield result
        table.update_incremental()
        if not progress:
            return


def _compact_one(table: DeltaTable, policy: Policy, value: str | None, chosen: Rewrite) -> Compacted:
    new = rewrite(table, value, chosen.files, target_bytes=policy.target_bytes, closes=chosen.closes)
    failpoints.reach("lake.compaction_files_written")
    outcome = replace_files(table, value, new.sources, new.actions)
    failpoints.reach("lake.compaction_committed")
    return Compacted(
        partition=value,
        files_before=len(new.sources),
        files_after=len(new.actions) if outcome is Outcome.COMMITTED else None,
        bytes_before=sum(file.bytes for file in new.sources),
        bytes_after=sum(action.size for action in new.actions),
        rows=new.rows,
    )
