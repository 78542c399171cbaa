"""Runs several databases in one task: one after the other while they are quick, else at once.

Because of Python's global lock, parallel work gains little while all databases answer.  But a database that
does not answer must not delay the others.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from services.writer.postgres.database import Database

#: Seconds that the databases of a task may take, all together, before the remaining ones start at once.
_HEAD_START_SECONDS: Final = 0.2


def in_all(databases: Sequence[Database], land: Callable[[Database], None]) -> None:
    """Call `land` for each of `databases`, and return when all have ended.  A single one needs no thread."""
    if len(databases) < 2:  # noqa: PLR2004
        for database in databases:
            land(database)
        return
    head_start_ends = time.monotonic() + _HEAD_START_SECONDS
    futures: list[Future[None]] = []
    with ThreadPoolExecutor(len(databases), "land") as threads:
        for database in databases:
            futures.append(threads.submit(land, database))
            wait(futures[-1:], max(head_start_ends - time.monotonic(), 0))
            if futures[-1].done() and futures[-1].exception():
                break
    for future in futures:
        future.result()
