"""Schedules parsing and checking: light work on the event loop, heavy work in a thread in its sender's turn.

There are two threads, because each computing thread makes the event loop wait for the interpreter. A sender
of many large bodies waits behind its own: each waiting sender has a turn before another has a second
one. A turn lasts from DECODE to ROUTE, so that at most two heavy bodies are parsed at a time.

Parts of costly schema checks have turns and a thread of their own: the event loop runs between any two.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Final, ParamSpec, Protocol, TypeVar

from services.ingest.request import RequestContext

P = ParamSpec("P")
T = TypeVar("T")

#: A body within both limits takes at most about 30 ms of the event loop.
_HEAVY_BYTES: Final = 128 * 1024
_HEAVY_SEPARATORS: Final = 5000
_PARSERS: Final = 2
_PARSING: Final = ThreadPoolExecutor(_PARSERS, thread_name_prefix="heavy-body")
_CHECKING: Final = ThreadPoolExecutor(1, thread_name_prefix="schema-check")


class Run(Protocol):
    """Runs a step."""

    def __call__(self, step: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Return what `step` returns."""
        ...


class Turns:
    """The turns of one flow; at most `at_once` at a time run in `threads`."""

    def __init__(self, at_once: int = _PARSERS, threads: ThreadPoolExecutor = _PARSING) -> None:
        self._free = at_once
        self._threads = threads
        #: Waiting senders in the order of their next turns.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def of(self, body: bytes, request: RequestContext) -> AbstractAsyncContextManager[Run]:
        """Return the context in which `body` is parsed: now if light, else in its sender's turn."""
        return self.turn(request) if is_heavy(body) else _LIGHT

    @asynccontextmanager
    async def turn(self, request: RequestContext) -> AsyncIterator[Run]:
        """Return the context of a turn of the request's sender, in which steps run in a thread."""
        await self._wait(request.queue)
        try:
            yield self._in_thread
        finally:
            self._next()

    async def _in_thread(self, step: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(step, *args, **kwargs))

    async def _wait(self, queue: str) -> None:
        if self._free:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(queue, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():  # the turn was granted meanwhile
                self._next()
            raise

    def _next(self) -> None:
        while self._waiting:
            queue = next(iter(self._waiting))
            line = self._waiting.pop(queue)
            mine = line.popleft()
            if line:
                self._waiting[queue] = line  # behind all other senders
            if not mine.done():
                mine.set_result(None)
                return
        self._free += 1


def check_turns() -> Turns:
    """Return turns for costly schema checks, one at a time."""
    return Turns(1, _CHECKING)


def is_heavy(body: bytes) -> bool:
    """Return whether `body` might block the event loop, by its size or its possible number of values."""
    return len(body) > _HEAVY_BYTES or body.count(b",") + body.count(b"\n") > _HEAVY_SEPARATORS


async def _on_loop(step: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    return step(*args, **kwargs)


_LIGHT: Final[AbstractAsyncContextManager[Run]] = nullcontext(_on_loop)
