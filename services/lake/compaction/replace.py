"""Replaces data files of a table in one commit, against exactly the snapshot that was compared.

delta-rs rebases a commit over newer versions without noticing that its removed files were removed already:
two processes that compact the same files would double their rows. So a commit here is never rebased
(`max_commit_retries=0`): it is refused after any other commit, and the files are compared again.
"""

import time
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from services.lake.compaction.data_files import DataFile, active_paths, partition_column

#: Commits of others come every few seconds, a comparison takes milliseconds.
_ATTEMPTS: Final = 100


class Outcome(Enum):
    """The outcome of a replacement.  `SUPERSEDED`: another process has removed a source; nothing changed."""

    COMMITTED = auto()
    SUPERSEDED = auto()


class ContendedError(Exception):
    """Others committed before each attempt."""


def replace_files(
    table: DeltaTable,
    value: str | None,
    sources: Sequence[DataFile],
    actions: Sequence[AddAction],
    *,
    changes_data: bool = False,
    transactions: Mapping[str, int] | None = None,
) -> Outcome:
    """Remove `sources` of the partition `value` and add the files of `actions` in one version.

    Each transaction identifier is set to its version. Raises `ContendedError`, and errors of the storage:
    then the commit may have happened, and the next snapshot says so.
    """
    column = partition_column(table)
    now = int(time.time() * 1000)
    values = {column: value} if column else {}
    removes = [RemoveAction(file.path, changes_data, now, file.bytes, values) for file in sources]
    properties = CommitProperties(
        max_commit_retries=0,
        app_transactions=[Transaction(key, version) for key, version in (transactions or {}).items()],
    )
    for _ in range(_ATTEMPTS):
        active = active_paths(table)
        if actions and all(action.path in active for action in actions):
            return Outcome.COMMITTED  # the reply of the attempt before was lost
        if not all(file.path in active for file in sources):
            return Outcome.SUPERSEDED
        try:
            table.create_write_transaction(
                [*actions, *removes],
                "append",
                table.schema(),
                [column] if column else None,
                commit_properties=properties,
                # Checkpoints and old log entries are the work of `maintain`.
                post_commithook_properties=PostCommitHookProperties(
                    create_checkpoint=False, cleanup_expired_logs=False
                ),
            )
        except CommitFailedError:
            table.update_incremental()
        else:
            return Outcome.COMMITTED
    raise ContendedError(f"{_ATTEMPTS} commits were refused")
