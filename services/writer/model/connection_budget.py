"""How many connections a database is asked for: arithmetic that needs no coordination.

A worker process runs one task at a time, and a task has at most two connections to a
database: one to land and, for a moment, one to make a table.  So a batch of n tasks has at
most 2 n, however many hosts they run on, and nobody has to ask anybody.
"""

from collections.abc import Iterable
from typing import Final

#: The driver's threads: the loop, the reader of totals, and drainer and release with one more each
#: for the moment in which they make a table.
OF_THE_DRIVER: Final = 6
OF_A_TASK: Final = 2
#: A bound below this lets not even one task land.
LEAST_CONNECTIONS: Final = OF_THE_DRIVER + OF_A_TASK
#: Below so many events a second task costs more than it brings.
_ONE_TASK_BELOW: Final = 5_000


def tasks(events: int, ranges: int, slots: int, bounds: Iterable[int | None]) -> int:
    """How many tasks a batch has, so that no database sees more connections than its bound."""
    if events < _ONE_TASK_BELOW:
        return 1
    return min(slots, ranges, *(most_tasks(b) for b in bounds if b is not None))


def most_tasks(bound: int) -> int:
    """How many tasks of a batch keep a database within `bound` connections."""
    return max((bound - OF_THE_DRIVER) // OF_A_TASK, 1)


def most_connections(slots: int) -> int:
    """How many connections as many tasks as there are Spark `slots` can have."""
    return OF_THE_DRIVER + OF_A_TASK * slots
