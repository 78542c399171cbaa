"""Queries several databases at once, so that one that hangs delays the answer by a bounded time."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, NamedTuple, TypeVar

from shared.errors import InfrastructureError

T = TypeVar("T")
#: Maximum concurrent queries of all journeys of a process.
_MAX_THREADS: Final = 32
#: Not the event loop's own executor: its shutdown would wait for a database that hangs.
_THREADS: Final = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="journey")


class Answers(NamedTuple, Generic[T]):
    """Answers by name, and for the others why there is none."""

    values: dict[str, T]
    failures: dict[str, str]


async def ask_all(calls: Mapping[str, Callable[[], T]], seconds: float) -> Answers[T]:
    """Run `calls` in threads; after `seconds` those that still run count as failures, and are not awaited."""
    loop = asyncio.get_running_loop()
    futures = {name: loop.run_in_executor(_THREADS, call) for name, call in calls.items()}
    answers = Answers[T]({}, {})
    if not futures:
        return answers
    await asyncio.wait(futures.values(), timeout=max(seconds, 0.0))
    for name, future in futures.items():
        if not future.done():
            future.cancel()
            answers.failures[name] = f"{name} did not answer within {seconds:g} s"
            continue
        try:
            answers.values[name] = future.result()
        except InfrastructureError as e:
            answers.failures[name] = e.detail
    return answers
