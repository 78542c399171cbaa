"""Several databases in one task: one after the other while they are quick, else at once.

Python does one thing at a time, so side by side gains little while all of them answer.  But
who does not answer must not hold up those behind it.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from services.writer.postgres.database import Database

#: How long the databases of a task may take, all together, before those that are left begin at once.
_HEAD_START_SECONDS: Final = 0.2


def in_all(databases: Sequence[Database], land: Callable[[Database], None]) -> None:
    """Do `land` for each of `databases`; returns when all have ended.  One alone needs no thread."""
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
