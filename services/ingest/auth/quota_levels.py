"""How full each bucket of a quota is, in memory that the workers of a machine share.

A bucket is one number: when it would be full again.  So taking is an addition, a worker that
dies takes nothing with it, and a bucket that is full may be forgotten (docs/adr/0024).
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

#: Where `__main__` tells the workers that the file is.
FILE: Final = "GATEWAY_QUOTAS_FILE"
_SLOT: Final = struct.Struct("<16sd")
_SLOTS: Final = 1 << 16
SIZE: Final = _SLOT.size * _SLOTS
#: How far from its own place a bucket may lie.
_NEAR: Final = 8
#: How often the lock is asked for; its holder keeps it for microseconds, unless it was stopped just there.
_TRIES: Final = 50


def name_of(*identity: object) -> bytes:
    """The name of a bucket, from whatever tells it from others."""
    return blake2b(repr(identity).encode(), digest_size=16).digest()


class Levels:
    """All buckets, by name."""

    def __init__(self, file: Path | None = None) -> None:
        """Of all processes that were given this file; without one of this process alone."""
        self._lock = None if file is None else os.open(file, os.O_RDWR)
        self._memory = mmap.mmap(-1 if self._lock is None else self._lock, SIZE)

    def full_at(self, name: bytes) -> float:
        """When the bucket is full again; 0 when it is."""
        for at in _places(name):
            found, level = _SLOT.unpack_from(self._memory, at)
            if found == name:
                return float(level)
        return 0.0

    def take(self, name: bytes, seconds: float, now: float) -> None:
        """Take what `seconds` bring."""
        with self._locked():
            at, level = self._place(name, now)
            _SLOT.pack_into(self._memory, at, name, max(level, now) + seconds)

    def _place(self, name: bytes, now: float) -> tuple[int, float]:
        """Where the bucket is, or may be: in place of one that is full, else of the fullest."""
        free: tuple[float, int] | None = None
        for at in _places(name):
            found, level = _SLOT.unpack_from(self._memory, at)
            if found == name:
                return at, float(level)
            if free is None or level < free[0]:
                free = level, at
        assert free is not None  # noqa: S101 - there are places
        return free[1], now

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """No other worker takes meanwhile, unless one holds the lock for so long that it must be stopped.

        Then two may take at once and one of them for nothing, which is less than to stand still.
        """
        held = self._lock is not None and _try(self._lock)
        try:
            yield
        finally:
            if held and self._lock is not None:
                fcntl.flock(self._lock, fcntl.LOCK_UN)


def shared_levels() -> Levels:
    """Those that this process has in common with the other workers, if there are any."""
    file = os.environ.get(FILE)
    return Levels(Path(file) if file else None)


def _try(lock: int) -> bool:
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _places(name: bytes) -> Iterator[int]:
    first = int.from_bytes(name[:4], "little")
    for n in range(_NEAR):
        yield (first + n) % _SLOTS * _SLOT.size
