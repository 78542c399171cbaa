"""One file of the spool, which belongs to the process that holds its lock."""

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
    """Whether it is one of our files."""
    return path.suffix == _SUFFIX


def new_path(folder: Path) -> Path:
    """A name that no other process takes."""
    return folder / f"{os.getpid()}-{uuid.uuid4().hex[:12]}{_SUFFIX}"


class SpoolFile:
    """Events that are not settled; for one thread at a time."""

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
        """A new file, which this process holds.

        Raises:
            OSError: it cannot be made.
        """
        file = cls(path, os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o600))
        fcntl.flock(file._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _sync_folder(path.parent)
        return file

    @classmethod
    def adopt(cls, path: Path) -> Self | None:
        """What another process has left there; None when it is somebody's, or gone."""
        try:
            file = cls(path, os.open(path, os.O_RDWR | os.O_APPEND))
        except FileNotFoundError:
            return None
        if not file._is_ours():
            os.close(file._file)
            return None
        content = b"".join(iter(lambda: os.read(file._file, _CHUNK), b""))
        file.live, file._next, file.damaged = spool_lines.read(content)
        file.size = len(content)
        file._is_torn = not content.endswith(b"\n")
        return file

    def has_room(self, more: int, most: int) -> bool:
        """Whether an event of that size may come in; settled ones are thrown out first if need be."""
        if self.size + more > most and sum(map(len, self.live.values())) + more <= most // 2:
            self._rewrite()
        return self.size + more <= most or not self.live

    def append(self, body: bytes) -> int:
        """Keep an event; returns its number."""
        number = self._next
        self._write(spool_lines.kept(number, body))
        self.live[number] = body
        self._next += 1
        self._unsynced = True
        return number

    def settle(self, numbers: list[int]) -> None:
        """Cross events out; with the last of them the file is empty again."""
        for number in numbers:
            self.live.pop(number, None)
        if self.live:
            self._write(spool_lines.settled(numbers))
        else:
            os.ftruncate(self._file, 0)
            self.size = 0
            self._is_torn = False

    def unsynced(self) -> int | None:
        """A descriptor to flush and to close, if something was appended since the last."""
        if not self._unsynced:
            return None
        self._unsynced = False
        return os.dup(self._file)

    def close(self) -> None:
        """Leave what is left to whoever starts next."""
        if self.live:
            os.fdatasync(self._file)
            os.close(self._file)
        else:
            self.remove()

    def remove(self) -> None:
        """All is settled."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)

    def forget(self) -> None:
        """It is the parent's; the lock stays with the copy that the parent has."""
        with suppress(OSError):
            os.close(self._file)

    def _rewrite(self) -> None:
        """The same events in a new file: until that is on the disk, the old one stays."""
        path = new_path(self._path.parent)
        new = type(self).create(path)
        for number, body in self.live.items():
            new._write(spool_lines.kept(number, body))  # noqa: SLF001 - one of us
        os.fdatasync(new._file)  # noqa: SLF001 - one of us
        old, old_path = self._file, self._path
        self._path, self._file, self.size, self._is_torn = path, new._file, new.size, False  # noqa: SLF001
        old_path.unlink(missing_ok=True)
        os.close(old)

    def _write(self, line: bytes) -> None:
        """A line that was cut by a full disk ends before the next one begins."""
        whole = b"\n" + line if self._is_torn else line
        self._is_torn = True
        left = memoryview(whole)
        while left:
            written = os.write(self._file, left)
            self.size += written
            left = left[written:]
        self._is_torn = False

    def _is_ours(self) -> bool:
        """Whether the lock is ours now, and the file still the one of that name."""
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
