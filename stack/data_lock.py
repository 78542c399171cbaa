"""The lock of a data folder: two stacks on one folder would damage it."""

import fcntl
import os
from pathlib import Path
from typing import IO

from stack.errors import UnavailableError
from stack.guard_client import GUARD
from stack.private_files import private_folder


class DataLock:
    """The lock of one folder, held from `take` to `release`."""

    def __init__(self, folder: Path) -> None:
        """`folder`: of the data; made when it is missing."""
        self._folder = folder
        self._lock: IO[str] | None = None

    @property
    def is_locked(self) -> bool:
        """Return whether this process holds the lock."""
        return self._lock is not None

    def take(self) -> None:
        """Take the lock.

        Raises:
            UnavailableError: another stack uses the folder.
        """
        folder = self._folder
        private_folder(folder)
        lock = (folder / "lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            owner = lock.read() or "unknown"
            lock.close()
            raise UnavailableError(
                f"Another 'onramp up' (process {owner}) uses {folder}.",
                fix="Stop it, or use another folder with --data-dir. If it was killed just now, its "
                "parts are still being stopped: try again in a few seconds.",
            ) from error
        self._lock = lock
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        # The guard holds the lock too: it is free only when every started process has ended.
        GUARD.hold(lock.fileno())

    def release(self) -> None:
        """Release the lock explicitly, because the guard still has the file open."""
        if self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            self._lock.close()
            self._lock = None
