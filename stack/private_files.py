"""Private files: the data folder, and the secrets in it.

Keys, the database's password and the logs of a laptop's stack are there. A secret is written to a temporary
file and moved into place: a crash or a full disk never leaves an empty one.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from stack.errors import UnavailableError

_FOLDER, _FILE = 0o700, 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private_folder(folder: Path) -> None:
    """Make a folder for its owner only; restrict the rights of an existing one.

    Raises:
        UnavailableError: all users may write to it (such as /tmp), or another account owns it.
    """
    folder.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
    if folder.stat().st_mode & stat.S_ISVTX:
        raise UnavailableError(
            f"{folder} is a folder that everybody writes to: keys would not be safe there.",
            fix="Give a folder of its own with --data-dir, for example one below it.",
        )
    try:
        _narrow(folder, _FOLDER)
    except PermissionError as error:
        raise UnavailableError(
            f"{folder} is open to others, and belongs to another account: keys would not be safe there.",
            fix="Give a folder of your own with --data-dir, or have its owner run 'chmod 700' on it.",
        ) from error


def secret(file: Path, make: Callable[[], str]) -> str:
    """Return the secret in the file, readable by its owner only; create it when missing or empty."""
    text = file.read_text("utf-8").strip() if file.exists() else ""
    if not text:
        text = make()
        store(file, f"{text}\n")
    _narrow(file, _FILE)
    return text


def store(file: Path, text: str) -> None:
    """Write a secret completely, readable by its owner only."""
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    beside.replace(file)


def _narrow(path: Path, mode: int) -> None:
    if path.stat().st_mode & _OTHERS:
        path.chmod(mode)
