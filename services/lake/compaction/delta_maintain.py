"""Checkpoints and vacuum of a table: both may be repeated and killed at any point.

Vacuum deletes by name only files that Onramp writes: a foreign file in the folder of a table stays.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

from deltalake import DeltaTable
from pyarrow.fs import FileType

from shared.lake.delta_storage import files_of, writable_files_of

#: Names of the data files of delta-rs and of compaction.
_OWN_FILES: Final = re.compile(r"(?:part-\d+-|compacted-|closed-)[0-9a-f-]{36}(?:-c\d+)?\.\w+\.parquet")
_LAST_CHECKPOINT: Final = "_delta_log/_last_checkpoint"


def checkpoint_version(table: DeltaTable) -> int | None:
    """Return the version of the last checkpoint, or None without one, also if its file is damaged."""
    storage = files_of(table)
    if storage.get_file_info(_LAST_CHECKPOINT).type is FileType.NotFound:
        return None
    with storage.open_input_file(_LAST_CHECKPOINT) as file:
        text = file.read()
    try:
        document = json.loads(text)
    except ValueError:  # a machine that lost its power may leave it empty
        return None
    version = document.get("version") if isinstance(document, dict) else None
    return version if isinstance(version, int) else None


def checkpoint_if_due(table: DeltaTable, every_commits: int) -> bool:
    """Write a checkpoint if the last one is `every_commits` versions old; return whether it was written."""
    last = checkpoint_version(table)
    if table.version() + 1 - (0 if last is None else last + 1) < every_commits:
        return False
    table.create_checkpoint()
    return True


def unreferenced(table: DeltaTable, retention_hours: int) -> tuple[Sequence[str], Sequence[str]]:
    """Return Onramp's files and foreign files that no snapshot of the last `retention_hours` needs.

    A file counts from its removal, or from its last change if the log does not name it.
    """
    paths = table.vacuum(
        retention_hours=retention_hours, dry_run=True, enforce_retention_duration=False, full=True
    )
    own = [path for path in paths if _OWN_FILES.fullmatch(path.rsplit("/", 1)[-1])]
    return own, sorted(set(paths) - set(own))


def vacuum(table: DeltaTable, retention_hours: int) -> Sequence[str]:
    """Delete Onramp's files that no recent snapshot needs; return their paths."""
    own, _ = unreferenced(table, retention_hours)
    storage = writable_files_of(table)
    for path in own:
        storage.delete_file(path)
    table.cleanup_metadata()
    return own
