"""RECEIVE: reads the body of an HTTP request and decompresses it, within the byte budget and a limit.

A request's part of the budget covers its body until its events are sent or rejected, and its
answer from then on: thousands of bad events in a few bytes have a large answer, and a
client may read it slowly.
"""

from collections.abc import Mapping
from typing import Final, Self

from services.ingest.asgi import AsgiReceive, ClientGoneError
from services.ingest.http.content_encoding import Inflater, codec_of
from services.ingest.http.growing_buffer import Growing
from services.ingest.send.byte_budget import ByteBudget
from shared.errors import BODY_TOO_LARGE, UserError

#: Bytes of a batch's answer for one event, without what comes from the event.
_RESULT_BYTES: Final = 200


class Body:
    """Reserves the bytes of one request, its body and then its answer, until the context ends."""

    def __init__(
        self, headers: Mapping[bytes, bytes], receive: AsgiReceive, budget: ByteBudget, max_bytes: int
    ) -> None:
        self._headers = headers
        self._receive = receive
        self._budget = budget
        self._max_bytes = max_bytes
        self._reserved = 0
        self._compressed = 0
        #: Whether all of it was read; otherwise the rest would be parsed as the next request.
        self.read_whole = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.release(self._reserved)

    async def read(self) -> bytes:
        """Read and return the whole body, decompressed.

        Raises:
            UserError: unknown or broken encoding, or larger than the limit: before a byte of it
                is read if its length was announced.
            InfrastructureError: no room in the byte budget.
            ClientGoneError: the client disconnected.
        """
        codec = codec_of(self._headers.get(b"content-encoding", b""))
        # Checked, not reserved: a client that announces much and sends nothing must reserve nothing.
        announced = int(self._headers.get(b"content-length", b"0"))
        self._check_limit(announced)
        first = await self._piece()
        if codec is None and self.read_whole:
            self._reserve_up_to(len(first))
            return first
        if codec is None:
            growing = Growing(announced or self._max_bytes)
            self._add(growing, first)
            del first  # no other frame may keep a piece alive, because it is counted once
            return await self._plain(growing)
        inflater = Inflater(codec, self._max_bytes)
        self._decompress(inflater, first)
        del first
        return await self._decompressed(inflater)

    def reserve_answer(self, events: int) -> None:
        """Reserve the bytes of the answer for this number of events, before any is sent.

        Raises:
            InfrastructureError: OVERLOADED, no room in the byte budget.
        """
        size = events * _RESULT_BYTES
        self._budget.reserve(size)
        self._reserved += size

    def hold_answer(self, size: int) -> None:
        """Release the body's bytes and count an answer of `size` bytes instead."""
        self._budget.release(self._reserved)
        self._budget.add(size)
        self._reserved = size

    async def _plain(self, growing: Growing) -> bytes:
        while not self.read_whole:
            self._add(growing, await self._piece())
        return growing.whole()

    def _add(self, growing: Growing, piece: bytes) -> None:
        self._reserve_up_to(growing.size + len(piece))
        growing.add(piece)

    async def _decompressed(self, inflater: Inflater) -> bytes:
        while not self.read_whole:
            self._decompress(inflater, await self._piece())
        return inflater.finish()

    def _decompress(self, inflater: Inflater, piece: bytes) -> None:
        self._compressed += len(piece)
        self._check_limit(self._compressed)
        for size in inflater.feed(piece):
            self._reserve_up_to(size)

    async def _piece(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        self.read_whole = not message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        return piece

    def _reserve_up_to(self, size: int) -> None:
        self._check_limit(size)
        if size > self._reserved:
            self._budget.reserve(size - self._reserved)
            self._reserved = size

    def _check_limit(self, size: int) -> None:
        if size > self._max_bytes:
            raise UserError(BODY_TOO_LARGE, f"the limit is {self._max_bytes} bytes")
