"""Turns: each caller has few concurrent requests, and few wait."""

import asyncio
from contextlib import AsyncExitStack, ExitStack

import pytest

from services.admin.api.turns import TurnError, Turns
from services.ops.registry.database_addresses import KnownPlaces
from services.ops.registry.registry_reader import MAX_CHANGES, RegistryReader
from shared.registry.log import MemoryLog
from shared.settings import KafkaSettings, RegistrySettings


def test_request_over_the_limit_of_its_key_waits_until_another_ends() -> None:
    async def ask() -> None:
        turns = Turns(limit=2, seconds=60)
        async with AsyncExitStack() as held:
            await held.enter_async_context(turns.of("vera"))
            async with turns.of("vera"), turns.of("otto"):
                waiting = asyncio.create_task(held.enter_async_context(turns.of("vera")))
                for _ in range(5):
                    await asyncio.sleep(0)
                assert not waiting.done()
            await waiting

    asyncio.run(ask())


def test_request_without_a_turn_in_time_is_refused_and_takes_no_turn() -> None:
    async def ask() -> None:
        turns = Turns(limit=1, seconds=0)
        async with turns.of("vera"):
            refused = asyncio.create_task(turns.of("vera").__aenter__())
            await asyncio.wait({refused}, timeout=60)
            with pytest.raises(TurnError, match="1 requests with the key vera"):
                refused.result()
        async with turns.of("vera"):
            pass

    asyncio.run(ask())


def test_more_than_may_wait_are_refused_at_once() -> None:
    async def ask() -> None:
        turns = Turns(limit=1, waiting=1, seconds=60)
        async with turns.of("vera"):
            waiting = [asyncio.create_task(turns.of("vera").__aenter__()) for _ in range(2)]
            for _ in range(5):
                await asyncio.sleep(0)
            assert [isinstance(each.done() and each.exception(), TurnError) for each in waiting] == [
                False,
                True,
            ]
            waiting[0].cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(ask())


def test_changes_that_wait_for_databases_keep_no_key_from_being_revoked() -> None:
    kafka, named = KafkaSettings(), RegistrySettings()
    desk = RegistryReader(kafka, named, KnownPlaces({}), opened=MemoryLog)
    with ExitStack() as waiting:
        for _ in range(MAX_CHANGES):
            waiting.enter_context(desk.editing())
        with desk.editing(of_keys=True) as editor:
            assert editor.chain.last == -1
