"""A file of the spool, owned by the process that has its lock."""

import fcntl
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from . import spool_lines

_SUFFIX: Final = ".spool"
_CHUNK: Final = 1 << 20


def is_spool(path: Path) -> bool:
    """Return whether the name of `path` is that of a spool file."""
    return path.suffix == _SUFFIX


def new_path(folder: Path) -> Path:
    """Return a path that no other process uses."""
    return folder / f"{os.getpid()}-{uuid.uuid4().hex[:12]}{_SUFFIX}"


class SpoolFile:
    """The unsettled events of a file (`live`); for one thread at a time."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._file = descriptor
        self.live: dict[int, bytes] = {}
        self.size = 0
        self.damaged = 0
        self._next = 0
        self._is_torn = False
        self._unsynced = False

    @classmethod
    def create(cls, path: Path) -> Self:
        """Create a file, locked by this process.

        Raises:
            OSError: it cannot be created.
        """
        file = cls(path, os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o600))
        fcntl.flock(file._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _sync_folder(path.parent)
        return file

    @classmethod
    def adopt(cls, path: Path) -> Self | None:
        """Lock and read another process's file; return None if it is locked or removed."""
        try:
            file = cls(path, os.open(path, os.O_RDWR | os.O_APPEND))
        except FileNotFoundError:
            return None
        if not file._lock():
            os.close(file._file)
            return None
        content = b"".join(iter(lambda: os.read(file._file, _CHUNK), b""))
        file.live, file._next, file.damaged = spool_lines.read(content)
        file.size = len(content)
        file._is_torn = not content.endswith(b"\n")
        return file

    def has_room(self, size: int, max_bytes: int) -> bool:
        """Return whether there is room for an event; remove settled ones first if needed."""
        if self.size + size > max_bytes and sum(map(len, self.live.values())) + size <= max_bytes // 2:
            self._rewrite()
        return self.size + size <= max_bytes or not self.live

    def append(self, body: bytes) -> int:
        """Append an event; return its number."""
        number = self._next
        self._write(spool_lines.event_line(number, body))
        self.live[number] = body
        self._next += 1
        self._unsynced = True
        return number

    def settle(self, numbers: list[int]) -> None:
        """Mark events as settled; empty the file after the last one."""
        for number in numbers:
            self.live.pop(number, None)
        if self.live:
            self._write(spool_lines.settled_line(numbers))
        else:
            os.ftruncate(self._file, 0)
            self.size = 0
            self._is_torn = False

    def unsynced(self) -> int | None:
        """Return a descriptor to flush and close; None if no event was appended since the last call."""
        if not self._unsynced:
            return None
        self._unsynced = False
        return os.dup(self._file)

    def close(self) -> None:
        """Close the file; remove it if all its events are settled."""
        if self.live:
            os.fdatasync(self._file)
            os.close(self._file)
        else:
            self.remove()

    def remove(self) -> None:
        """Remove and close the file."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)

    def forget(self) -> None:
        """Close this copy of the descriptor; the parent keeps the lock."""
        with suppress(OSError):
            os.close(self._file)

    def _rewrite(self) -> None:
        """Write the live events to a new file; the old one remains until the new one is on the disk."""
        path = new_path(self._path.parent)
        new = type(self).create(path)
        for number, body in self.live.items():
            new._write(spool_lines.event_line(number, body))  # noqa: SLF001 - one of us
        os.fdatasync(new._file)  # noqa: SLF001 - one of us
        old, old_path = self._file, self._path
        self._path, self._file, self.size, self._is_torn = path, new._file, new.size, False  # noqa: SLF001
        old_path.unlink(missing_ok=True)
        os.close(old)

    def _write(self, line: bytes) -> None:
        """Write a line; first end a previous line that a full disk cut off."""
        data = b"\n" + line if self._is_torn else line
        self._is_torn = True
        rest = memoryview(data)
        while rest:
            written = os.write(self._file, rest)
            self.size += written
            rest = rest[written:]
        self._is_torn = False

    def _lock(self) -> bool:
        """Lock the file; return whether it is locked and the path still names the same file."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.fstat(self._file).st_ino == self._path.stat().st_ino
        except (BlockingIOError, FileNotFoundError):
            return False


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
