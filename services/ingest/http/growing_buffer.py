"""Bytes that come in pieces, kept outside of malloc's heap until they are whole.

Hundreds of bodies grow at the same time.  On the heap their pieces lie among one another, and the holes
that each one leaves when it is put together fit no other whole body: half as much again, for nothing.
A mapping is as large as what was written to it, and its end gives all of it back.
"""

import mmap


class Growing:
    """At most `most` bytes."""

    def __init__(self, most: int) -> None:
        self.size = 0
        self._pages = mmap.mmap(-1, max(most, 1))
        if hasattr(mmap, "MADV_NOHUGEPAGE"):  # of those a single byte takes 2 MB
            self._pages.madvise(mmap.MADV_NOHUGEPAGE)

    def add(self, piece: bytes) -> None:
        """One piece more.  Whoever adds sees to it that there are no more than `most` bytes."""
        end = self.size + len(piece)
        self._pages[self.size : end] = piece
        self.size = end

    def whole(self) -> bytes:
        """All of it; nothing is kept here any more."""
        content = self._pages[: self.size]
        self._pages.close()
        return content
