"""Reads the next slice while the last is stored, and merges the slices that arrived meanwhile.

Reading and storing each wait for another machine, so in sequence they take twice as long; and a larger
slice counts its groups once.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, NamedTuple, Self

from services.ops.findings import Source
from services.ops.parked.parked_events import StoredEvent

#: Maximum polls that are read ahead, of about a megabyte each.
_MAX_AHEAD: Final = 4


class Slice(NamedTuple):
    """Events to store, and the next offset of each partition after them."""

    events: list[StoredEvent]
    next_offsets: dict[Source, int]


class ReadAhead:
    """Reads an iterator of slices in its own task; a context manager."""

    def __init__(self, slices: AsyncGenerator[Slice, None]) -> None:
        self._slices = slices
        self._read: asyncio.Queue[Slice] = asyncio.Queue(_MAX_AHEAD)

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._fill())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def take(self) -> Slice | None:
        """Wait for a slice, and return it merged with all that have arrived; None at the iterator's end.

        Raises the iterator's error, once the slices before it are taken.
        """
        taking = asyncio.create_task(self._read.get())
        try:
            await asyncio.wait({taking, self._reading}, return_when=asyncio.FIRST_COMPLETED)
            if not taking.done():
                await self._reading
                return None
            found = taking.result()
        finally:
            taking.cancel()
        while not self._read.empty():
            more = self._read.get_nowait()
            found = Slice(found.events + more.events, more.next_offsets)
        return found

    async def _fill(self) -> None:
        async with aclosing(self._slices) as slices:
            async for found in slices:
                await self._read.put(found)
