"""What glibc's malloc keeps of memory that is free: it knows nothing of floods and slices."""

import ctypes
from typing import Final

#: From glibc's malloc.h.
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_LARGE_BLOCK: Final = 128 * 1024


def return_large_blocks() -> None:
    """Have malloc return blocks above 128 KiB to the system as soon as they are free.

    glibc begins so and then keeps ever larger ones on its heap, where a flood leaves as many holes.
    """
    _mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def share_heaps(most: int) -> None:
    """Have threads share so many heaps: else each has its own, and keeps the most that it ever held."""
    _mallopt(_M_ARENA_MAX, most)


def _mallopt(option: int, value: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc's alone
        mallopt(option, value)
