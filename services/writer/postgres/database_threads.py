"""Runs work for one database in a thread of its own, so that a silent database delays no other.

asyncio's threads are few and shared: with one silent database per thread, all other work in these threads
would stop.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar, TypeVarTuple

from services.writer.postgres.database import Database
from shared.errors import InfrastructureError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def in_own_thread(work: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Run `work` in a new daemon thread; return its result and raise its exception.

    If the caller is canceled, the thread continues to its end; it does not keep the process alive.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if not done.done():  # otherwise the caller was canceled
            done.set_exception(error) if error else done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work(*arguments)
        except BaseException as e:  # noqa: BLE001 - raised in the caller
            error = e
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="database", daemon=True).start()
    return await done


async def failures(
    databases: Iterable[Database], work: Callable[[Database], Any]
) -> dict[str, InfrastructureError]:
    """Run `work` for all `databases` at once; return the errors of those that failed, by name."""
    errors: dict[str, InfrastructureError] = {}

    async def one(database: Database) -> None:
        try:
            await in_own_thread(work, database)
        except InfrastructureError as e:
            errors[database.name] = e

    await asyncio.gather(*(one(d) for d in databases))
    return errors
