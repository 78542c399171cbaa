"""Replaces data files of a table in one commit, against exactly the snapshot that was compared.

delta-rs rebases a commit over newer versions without noticing that its removed files were removed already:
two processes that compact the same files would double their rows. So a commit here is never rebased
(`max_commit_retries=0`): it is refused after any other commit, and the files are compared again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from shared.lake.delta_files import DataFile, Partition, active_paths, partition_column

#: Commits of others come every few seconds, a comparison takes milliseconds.
_ATTEMPTS: Final = 100


@dataclass(frozen=True, slots=True)
class Replacement:
    """Files of a partition that replace `sources`; without `actions` their rows are dropped."""

    partition: Partition
    sources: Sequence[DataFile]
    actions: Sequence[AddAction] = ()


class ContendedError(Exception):
    """Others committed before each attempt."""


def replace_files(
    table: DeltaTable,
    replacements: Sequence[Replacement],
    *,
    transactions: Callable[[DeltaTable], Mapping[str, int]] = lambda _: {},
) -> Sequence[Replacement]:
    """Commit the replacements in one version; return those that are committed.

    A replacement with a source that another process has removed is skipped. `transactions` returns versions
    of identifiers, for the snapshot of each attempt. Raises `ContendedError`, and errors of the storage: then
    the commit may have succeeded, and the next snapshot shows it.
    """
    column = partition_column(table)
    for _ in range(_ATTEMPTS):
        active = active_paths(table)
        committed = [each for each in replacements if _is_committed(each, active)]
        valid = [each for each in replacements if all(file.path in active for file in each.sources)]
        if not valid:
            return committed
        try:
            table.create_write_transaction(
                [action for each in valid for action in _actions(each)],
                "append",
                table.schema(),
                [column] if column else None,
                commit_properties=CommitProperties(
                    max_commit_retries=0,
                    app_transactions=[Transaction(*each) for each in transactions(table).items()],
                ),
                # Checkpoints and old log entries are the work of `delta_maintain`.
                post_commithook_properties=PostCommitHookProperties(
                    create_checkpoint=False, cleanup_expired_logs=False
                ),
            )
        except CommitFailedError:
            pass  # another commit came first: compare again
        else:
            return [*committed, *valid]
        finally:
            table.update_incremental()
    raise ContendedError(f"{_ATTEMPTS} commits were refused")


def _is_committed(replacement: Replacement, active: frozenset[str]) -> bool:
    """Return whether an attempt succeeded whose reply was lost."""
    return bool(replacement.actions) and all(action.path in active for action in replacement.actions)


def _actions(replacement: Replacement) -> Sequence[AddAction | RemoveAction]:
    values = replacement.partition.values
    now = int(time.time() * 1000)
    drops = not replacement.actions
    removes = [RemoveAction(file.path, drops, now, file.bytes, values) for file in replacement.sources]
    return [*replacement.actions, *removes]
