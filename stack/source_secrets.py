"""The DSNs of sources that `onramp up` captures, in files for their owner alone.

The agent and Kafka Connect read the files at each use, so a source that is added beside a running
`onramp up` needs no restart, and its password is given once.
"""

from pathlib import Path
from typing import Final

from shared.registry.sources import PASSWORD_SUFFIX
from stack.private_files import private_folder, store

_FOLDER: Final = "sources"


def folder_of(data_dir: Path) -> Path:
    """Return where the files of a data folder are."""
    return data_dir.absolute() / _FOLDER


def keep(data_dir: Path, variable: str, dsn: str) -> None:
    """Store a DSN under the name of its variable, and beside it the password alone, for Kafka Connect."""
    from shared.postgres.source_dsns import password_in  # noqa: PLC0415 - needs the `local` extra

    folder = folder_of(data_dir)
    private_folder(folder)
    # First: the agent takes a DSN for complete.
    store(folder / f"{variable}{PASSWORD_SUFFIX}", password_in(dsn))
    store(folder / variable, dsn)
