"""The DSNs of sources that `onramp up` captures, in files readable by their owner only.

The agent and Kafka Connect read the files at each use. So a source that is added during `onramp up` needs no
restart, and its password is given once.
"""

from pathlib import Path
from typing import Final

from shared.registry.sources import PASSWORD_SUFFIX
from stack.private_files import private_folder, store

_FOLDER: Final = "sources"


def folder_of(data_dir: Path) -> Path:
    """Return the folder of the files in a data folder."""
    return data_dir.absolute() / _FOLDER


def keep(data_dir: Path, variable: str, dsn: str) -> None:
    """Store a DSN under its variable's name, and the password alone in a second file, for Kafka Connect."""
    from shared.postgres.source_dsns import password_in  # noqa: PLC0415 - needs the `local` extra

    folder = folder_of(data_dir)
    private_folder(folder)
    # The password is written first: the agent treats the DSN as complete.
    store(folder / f"{variable}{PASSWORD_SUFFIX}", password_in(dsn))
    store(folder / variable, dsn)
