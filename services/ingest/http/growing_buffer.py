"""A buffer for bytes that arrive in pieces, outside of malloc's heap until they are complete.

Hundreds of bodies grow at the same time. On the heap their pieces interleave, and the holes
that each one leaves when it is joined fit no other body: 50 % more memory.
A mapping uses as much memory as was written to it, and its end frees all of it.
"""

import mmap


class Growing:
    """A buffer of at most `max_bytes` bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.size = 0
        self._pages = mmap.mmap(-1, max(max_bytes, 1))
        if hasattr(mmap, "MADV_NOHUGEPAGE"):  # with huge pages a single byte uses 2 MB
            self._pages.madvise(mmap.MADV_NOHUGEPAGE)

    def add(self, piece: bytes) -> None:
        """Append a piece. The caller ensures that the total is at most `max_bytes`."""
        end = self.size + len(piece)
        self._pages[self.size : end] = piece
        self.size = end

    def whole(self) -> bytes:
        """Return all bytes and free the buffer."""
        content = self._pages[: self.size]
        self._pages.close()
        return content
