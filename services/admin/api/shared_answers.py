"""Shares one answer among polls of one URL by one key: ten tabs cost one computation for each interval."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MAX_ANSWERS: Final = 64
_OK: Final = 200
_NOT_MODIFIED: Final = 304
_ETAG: Final = b"etag"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response, of which `tag` is the ETag."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def tag(self) -> bytes:
        """Return the ETag, empty without one."""
        return dict(self.headers).get(_ETAG, b"")

    async def send(self, send: Send, known: bytes) -> None:
        """Send it, or 304 to a client that knows this tag."""
        if self.status == _OK and known and known == self.tag:
            tag = [(_ETAG, self.tag)]
            await send({"type": "http.response.start", "status": _NOT_MODIFIED, "headers": tag})
            await send({"type": "http.response.body", "body": b""})
            return
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


@dataclass(slots=True)
class _Place:
    """The answer of one key, and the time until which polls share it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    answer: Answer | None = None
    until: float = 0.0
    writes: int = -1


class SharedAnswers:
    """The last answer by key, for one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._places: dict[Hashable, _Place] = {}
        self._writes = 0

    async def of(self, key: Hashable, compute: Callable[[], Awaitable[tuple[Answer, float]]]) -> Answer:
        """Return the shared answer, or that of `compute` with the seconds for which it may be shared.

        Callers of one key wait for one computation.  Raises what `compute` raises.
        """
        place = self._places.setdefault(key, _Place())
        async with place.lock:
            if place.answer and place.writes == self._writes and self._clock() < place.until:
                return place.answer
            began, place.writes = self._clock(), self._writes
            place.answer = None
            answer, seconds = await compute()
            if answer.status == _OK:
                place.answer, place.until = answer, began + seconds
        self._forget_old()
        return answer

    def forget(self, key: Hashable) -> None:
        """Forget the answer of a key: its page was loaded again."""
        self._places.pop(key, None)

    def forget_all(self) -> None:
        """Forget all answers, also those that are being computed: something is written."""
        self._writes += 1

    def _forget_old(self) -> None:
        """Forget answers that are shared no longer, and the oldest ones above the maximum."""
        now = self._clock()
        free = [key for key, place in self._places.items() if not place.lock.locked()]
        for key in [key for key in free if self._places[key].until <= now]:
            self._places.pop(key)
        for key in [key for key in free if key in self._places][: max(len(self._places) - _MAX_ANSWERS, 0)]:
            self._places.pop(key)


async def whole_answer(app: ASGIApp, scope: Scope, receive: Receive) -> Answer:
    """Return the response of an application to a request without a known ETag."""
    headers = [(name, value) for name, value in scope["headers"] if name != b"if-none-match"]
    started: Message = {}
    body: list[bytes] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            started.update(message)
        else:
            body.append(message.get("body", b""))

    await app({**scope, "headers": headers}, receive, send)
    return Answer(started["status"], list(started["headers"]), b"".join(body))


def known_tag(headers: Headers) -> bytes:
    """Return the ETag that a client knows."""
    return headers.get("if-none-match", "").encode()
