"""Limits the connections to a database by arithmetic alone, without coordination.

A worker process runs one task at a time, and a task has at most two connections to a
database: one to land and, for a moment, one to make a table.  So a batch of n tasks has at
most 2 n, however many hosts they run on, and no process has to ask another.
"""

from collections.abc import Iterable
from typing import Final

#: The driver's threads: the loop, the reader of totals, and drainer and release with one more each
#: for the moment in which they make a table.
OF_THE_DRIVER: Final = 6
OF_A_TASK: Final = 2
#: With a lower limit not even one task could land.
MIN_CONNECTIONS: Final = OF_THE_DRIVER + OF_A_TASK
#: With fewer events than this a second task costs more than it saves.
_ONE_TASK_BELOW: Final = 5_000


def tasks(events: int, ranges: int, slots: int, bounds: Iterable[int | None]) -> int:
    """Return how many tasks a batch has, so that no database gets more connections than its bound."""
    if events < _ONE_TASK_BELOW:
        return 1
    return min(slots, ranges, *(most_tasks(b) for b in bounds if b is not None))


def most_tasks(bound: int) -> int:
    """Return the most tasks of a batch that keep a database within `bound` connections; at least 1."""
    return max((bound - OF_THE_DRIVER) // OF_A_TASK, 1)


def most_connections(slots: int) -> int:
    """Return the most connections of a writer with `slots` Spark slots to one database."""
    return OF_THE_DRIVER + OF_A_TASK * slots
