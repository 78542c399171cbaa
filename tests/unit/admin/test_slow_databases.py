"""Slow databases occupy threads of their own: the registry is polled, and other work has the event loop's."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from services.admin.figures.parts import PartStates
from services.admin.figures.totals_watch import TotalsWatch
from services.admin.registry_watch import RegistryWatch
from services.ops.current_totals_sql import TotalsReader
from services.ops.settled.reader import SettledReader
from shared.kafka_security import Brokers
from shared.registry.memory import MemoryRegistry

#: More than the threads of an event loop on any machine.
MANY = 40


def during(slow: Callable[[threading.Event], Awaitable[object]], act: Callable[[], Awaitable[None]]) -> None:
    """Act while the threads of `slow` wait for the event."""
    answered = threading.Event()

    async def run() -> None:
        waiting = asyncio.ensure_future(slow(answered))
        try:
            for _ in range(10):  # until all are submitted
                await asyncio.sleep(0)
            async with asyncio.timeout(10):
                await act()
        finally:
            answered.set()
            await waiting

    asyncio.run(run())


def test_the_registry_is_polled_while_all_threads_wait() -> None:
    registry, polled = MemoryRegistry(), asyncio.Event()
    registry.put({"event_types": {"order_made": {}}})

    async def poll() -> None:
        watch = RegistryWatch(registry, polled.set)
        running = asyncio.ensure_future(watch.run())
        await polled.wait()
        watch.stop()
        await running

    during(lambda answered: asyncio.gather(*(asyncio.to_thread(answered.wait) for _ in range(MANY))), poll)
    assert list(registry.snapshot().event_types) == ["order_made"]


def test_slow_totals_leave_the_threads_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_waiting() -> None:
        return None

    def slow(answered: threading.Event) -> Awaitable[object]:
        monkeypatch.setattr(TotalsReader, "read", lambda _: answered.wait())
        databases = {f"db_{n}": f"postgresql://127.0.0.1:1/db_{n}" for n in range(MANY)}
        settled = SettledReader()
        watch = TotalsWatch(Brokers("127.0.0.1:1"), "", databases, no_waiting, PartStates(), settled=settled)
        return watch._read_databases()

    async def other_work() -> None:
        assert await asyncio.to_thread(threading.current_thread) is not threading.main_thread()

    during(slow, other_work)
