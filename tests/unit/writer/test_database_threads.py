"""Work for a database that does not answer delays no other work, for any number of such databases."""

import asyncio
import threading

from services.writer.postgres.database_threads import in_own_thread

_MANY = 64


def test_call_that_never_returns_takes_no_thread_from_another_call() -> None:
    async def beside() -> str:
        never = threading.Event()
        silent = [asyncio.create_task(in_own_thread(never.wait)) for _ in range(_MANY)]
        await asyncio.sleep(0)  # each has begun before the one that must not wait
        try:
            async with asyncio.timeout(30):
                return await in_own_thread(lambda: "answered")
        finally:
            never.set()
            await asyncio.gather(*silent)

    assert asyncio.run(beside()) == "answered"
