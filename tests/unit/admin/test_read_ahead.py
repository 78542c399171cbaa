"""Reading continues while a slice is stored; records that arrive meanwhile form one slice."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from services.admin.dead_letters.read_ahead import ReadAhead, Slice
from services.ops.findings import Source
from services.ops.parked.parked_events import StoredEvent
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError

SOURCE = Source("onramp.user_errors", 0)


def slice_of(*offsets: int) -> Slice:
    return Slice([cast("StoredEvent", n) for n in offsets], {SOURCE: offsets[-1] + 1})


class Log:
    """Slices of three events; all but the first come when `more` is set."""

    def __init__(self, ends_after: int, *, raises: bool = False) -> None:
        self.asked_for = 0
        self.is_closed = False
        self.more = asyncio.Event()
        self._ends_after, self._raises = ends_after, raises

    async def slices(self) -> AsyncGenerator[Slice, None]:
        try:
            for n in range(self._ends_after):
                self.asked_for = n + 1
                yield slice_of(3 * n, 3 * n + 1, 3 * n + 2)
                await self.more.wait()
            if self._raises:
                raise InfrastructureError(KAFKA_UNAVAILABLE, "it is away")
        finally:
            self.is_closed = True


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def run(of: Any) -> Any:
    return asyncio.run(of)


def test_while_one_is_stored_the_next_ones_are_read_and_come_as_one() -> None:
    async def follow() -> list[Slice | None]:
        log = Log(3)
        async with ReadAhead(log.slices()) as ahead:
            first = await ahead.take()
            log.more.set()
            await settled()  # meanwhile it is stored
            return [first, await ahead.take(), await ahead.take()]

    first, second, third = run(follow())
    assert first == slice_of(0, 1, 2)
    assert second == slice_of(3, 4, 5, 6, 7, 8), "in order, and behind the last of them"
    assert third is None


def test_no_more_is_read_ahead_than_fits_into_memory() -> None:
    async def follow() -> int:
        log = Log(1_000)
        async with ReadAhead(log.slices()) as ahead:
            await ahead.take()
            log.more.set()
            await settled()
            return log.asked_for

    assert run(follow()) < 10


def test_a_failure_comes_after_what_was_read_before_it() -> None:
    async def follow() -> Slice | None:
        log = Log(1, raises=True)
        log.more.set()
        async with ReadAhead(log.slices()) as ahead:
            await settled()
            found = await ahead.take()
            with pytest.raises(InfrastructureError, match="it is away"):
                await ahead.take()
            return found

    assert run(follow()) == slice_of(0, 1, 2)


def test_reader_that_exits_early_closes_the_log() -> None:
    async def follow() -> Log:
        log = Log(1_000)
        async with ReadAhead(log.slices()) as ahead:
            await ahead.take()
        return log

    assert run(follow()).is_closed
