"""RECEIVE: the body of an HTTP request, inflated, under its caps, out of the byte budget.

What a request takes out of the budget is its body's until it is judged and sent, and its
answer's from then on: thousands of bad events in a few bytes have a large answer, and a
client may take its time to read it.
"""

from collections.abc import Mapping
from typing import Final, Self

from services.ingest.asgi import AsgiReceive, ClientGoneError, Message
from services.ingest.http.content_encoding import Inflater, codec_of
from services.ingest.send.byte_budget import ByteBudget
from shared.errors import BODY_TOO_LARGE, UserError

#: What a batch's answer says of one event, but for the event's own words.
_RESULT_BYTES: Final = 200


class Body:
    """One request's body, then its answer; a context that gives back the budget's bytes at its end."""

    def __init__(
        self, headers: Mapping[bytes, bytes], receive: AsgiReceive, budget: ByteBudget, cap: int
    ) -> None:
        self._headers = headers
        self._receive = receive
        self._budget = budget
        self._cap = cap
        self._taken = 0
        #: Whether all of it was read; an unread rest must not be taken for the next request.
        self.read_whole = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.release(self._taken)

    async def read(self) -> bytes:
        """The whole body, inflated.

        Raises:
            UserError: unknown or broken encoding, or larger than the cap: before a byte of it
                is read if its length was announced.
            InfrastructureError: no room in the byte budget.
            ClientGoneError: the client left.
        """
        codec = codec_of(self._headers.get(b"content-encoding", b""))
        # Checked, not taken: a client that announces much and sends nothing must hold nothing.
        self._check_cap(int(self._headers.get(b"content-length", b"0")))
        message = await self._next()
        body: bytes = message.get("body", b"")
        if codec is None and self.read_whole:
            self._take_up_to(len(body))
            return body
        if codec is None:
            return await self._plain(body)
        return await self._inflated(Inflater(codec, self._cap), body)

    def expect(self, events: int) -> None:
        """Take what the answer for so many events will hold: once some are sent, nobody can refuse."""
        size = events * _RESULT_BYTES
        self._budget.reserve(size)
        self._taken += size

    def answered(self, size: int) -> None:
        """The body is gone; from now on an answer of `size` bytes is held."""
        self._budget.release(self._taken)
        self._budget.add(size)
        self._taken = size

    async def _plain(self, first: bytes) -> bytes:
        pieces, size = [first], len(first)
        self._take_up_to(size)
        while not self.read_whole:
            pieces.append((await self._next()).get("body", b""))
            size += len(pieces[-1])
            self._take_up_to(size)
        return b"".join(pieces)

    async def _inflated(self, inflater: Inflater, piece: bytes) -> bytes:
        sent = len(piece)
        inflater.feed(piece)
        self._check_cap(sent)
        self._take_up_to(len(inflater.out))
        while not self.read_whole:
            piece = (await self._next()).get("body", b"")
            sent += len(piece)
            self._check_cap(sent)
            inflater.feed(piece)
            self._take_up_to(len(inflater.out))
        return inflater.finish()

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        self.read_whole = not message.get("more_body", False)
        return message

    def _take_up_to(self, size: int) -> None:
        self._check_cap(size)
        if size > self._taken:
            self._budget.reserve(size - self._taken)
            self._taken = size

    def _check_cap(self, size: int) -> None:
        if size > self._cap:
            raise UserError(BODY_TOO_LARGE, f"the limit is {self._cap} bytes")
