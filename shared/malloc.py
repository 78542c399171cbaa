"""Tunes how much free memory glibc's malloc retains."""

import ctypes
from typing import Final

#: From glibc's malloc.h.
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_LARGE_BLOCK: Final = 128 * 1024


def return_large_blocks() -> None:
    """Make malloc return free blocks above 128 KiB to the system at once.

    glibc begins like this and then raises the threshold, so that a flood of requests leaves holes on its
    heap.
    """
    _mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def share_heaps(max_heaps: int) -> None:
    """Limit the heaps of all threads: otherwise each has its own, which retains its maximum size."""
    _mallopt(_M_ARENA_MAX, max_heaps)


def _mallopt(option: int, value: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # exists only in glibc
        mallopt(option, value)
