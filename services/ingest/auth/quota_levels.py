"""The levels of all quota buckets, in memory shared by the workers of a machine.

A bucket is one number: the time at which it would be full again. So consuming is an addition, a
worker that dies loses nothing, and a full bucket may be removed (docs/adr/0024).
"""

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

#: The environment variable in which `__main__` passes the file's path to the workers.
FILE: Final = "GATEWAY_QUOTAS_FILE"
_SLOT: Final = struct.Struct("<16sd")
_SLOTS: Final = 1 << 16
SIZE: Final = _SLOT.size * _SLOTS
#: Number of slots from its hash in which a bucket may be stored (linear probing).
_PROBES: Final = 8
#: Attempts to get the lock, which is held for microseconds unless its holder is stopped.
_LOCK_ATTEMPTS: Final = 50


def bucket_name(*identity: object) -> bytes:
    """Return a bucket's name of 16 bytes: a hash of what identifies it."""
    return blake2b(repr(identity).encode(), digest_size=16).digest()


class Levels:
    """All buckets, by name."""

    def __init__(self, file: Path | None = None) -> None:
        """Share the levels with all processes that use this file; without a file, with none."""
        self._lock = None if file is None else os.open(file, os.O_RDWR)
        self._memory = mmap.mmap(-1 if self._lock is None else self._lock, SIZE)

    def full_at(self, name: bytes) -> float:
        """Return the time at which the bucket is full again; 0 if it is not stored, which means full."""
        for offset in _offsets(name):
            stored, level = _SLOT.unpack_from(self._memory, offset)
            if stored == name:
                return float(level)
        return 0.0

    def consume(self, name: bytes, seconds: float, now: float) -> None:
        """Consume the tokens that the bucket gets in `seconds`."""
        with self._locked():
            offset, level = self._slot(name, now)
            _SLOT.pack_into(self._memory, offset, name, max(level, now) + seconds)

    def _slot(self, name: bytes, now: float) -> tuple[int, float]:
        """Return the bucket's offset and level; if it is not stored, the offset of the fullest near it."""
        free: tuple[float, int] | None = None
        for offset in _offsets(name):
            stored, level = _SLOT.unpack_from(self._memory, offset)
            if stored == name:
                return offset, float(level)
            if free is None or level < free[0]:
                free = level, offset
        assert free is not None  # noqa: S101 - there are slots
        return free[1], now

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other workers from consuming meanwhile, unless a stopped worker holds the lock.

        In that case two workers may consume at once and one count is lost, which is cheaper than waiting.
        """
        locked = self._lock is not None and _try_lock(self._lock)
        try:
            yield
        finally:
            if locked and self._lock is not None:
                fcntl.flock(self._lock, fcntl.LOCK_UN)


def shared_levels() -> Levels:
    """Open the levels that this process shares with other workers, if any."""
    file = os.environ.get(FILE)
    return Levels(Path(file) if file else None)


def _try_lock(lock: int) -> bool:
    for _ in range(_LOCK_ATTEMPTS):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _offsets(name: bytes) -> Iterator[int]:
    first = int.from_bytes(name[:4], "little")
    for n in range(_PROBES):
        yield (first + n) % _SLOTS * _SLOT.size
