"""Limits the connections to a database by arithmetic, without coordination.

A worker process runs one task at a time.  A task has at most two connections to a database: one to
land events and, briefly, one to create a table.  So a batch of n tasks has at most 2 n connections on
any number of hosts, and the processes need not communicate.
"""

from collections.abc import Iterable
from typing import Final

#: Connections of the driver: the loop, the reader of totals, and two each for drainer and release,
#: which need a second connection while they create a table.
OF_THE_DRIVER: Final = 6
OF_A_TASK: Final = 2
#: Minimum limit: with fewer connections no task could land events.
MIN_CONNECTIONS: Final = OF_THE_DRIVER + OF_A_TASK
#: Minimum events for a second task, which otherwise costs more than it saves.
_ONE_TASK_BELOW: Final = 5_000


def tasks(events: int, ranges: int, slots: int, bounds: Iterable[int | None]) -> int:
    """Return the number of tasks of a batch, so that each database stays within its limit of connections."""
    if events < _ONE_TASK_BELOW:
        return 1
    return min(slots, ranges, *(max_tasks(b) for b in bounds if b is not None))


def max_tasks(bound: int) -> int:
    """Return the maximum number of tasks that keep a database within `bound` connections; at least 1."""
    return max((bound - OF_THE_DRIVER) // OF_A_TASK, 1)


def max_connections(slots: int) -> int:
    """Return the maximum number of connections to one database of a writer with `slots` Spark slots."""
    return OF_THE_DRIVER + OF_A_TASK * slots
