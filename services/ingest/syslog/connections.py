"""The limit of syslog's connections, shared fairly: one address must not shut out all others.

When all are in use, a new connection replaces one of the address that has most, if its own has
fewer: the one that has been silent for longest.  A connection whose messages are not on Kafka yet
is never replaced.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass

Task = asyncio.Task[None]


@dataclass(slots=True)
class _Connection:
    peer: str
    #: Whether it has messages that are not on Kafka yet.
    delivering: bool = False


class Connections:
    """The open connections by the task that serves each, the longest silent first; `limit` at most."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[Task, _Connection] = {}

    def add(self, task: Task, peer: str) -> bool:
        """Add a connection of `peer`, in place of another if need be; return False if there is no room."""
        if len(self._open) >= self._limit and not self._make_room(peer):
            return False
        self._open[task] = _Connection(peer)
        return True

    def remove(self, task: Task) -> None:
        """Remove a connection, if it was not replaced already."""
        self._open.pop(task, None)

    def received(self, task: Task) -> None:
        """Note that messages came, which are on their way from now on."""
        connection = self._open.pop(task, None)
        if connection is not None:
            connection.delivering = True
            self._open[task] = connection

    def delivered(self, task: Task) -> None:
        """Note that its messages are on Kafka."""
        connection = self._open.get(task)
        if connection is not None:
            connection.delivering = False

    @property
    def all(self) -> set[Task]:
        """Return every connection's task."""
        return set(self._open)

    @property
    def delivering(self) -> set[Task]:
        """Return the tasks of connections whose messages are not on Kafka yet."""
        return {task for task, connection in self._open.items() if connection.delivering}

    def _make_room(self, peer: str) -> bool:
        per_peer = Counter(connection.peer for connection in self._open.values())
        # With as many as the other address has, the two would only replace one another by turns.
        most = max(per_peer.values())
        if per_peer[peer] + 1 >= most:
            return False
        for task, connection in self._open.items():
            if per_peer[connection.peer] == most and not connection.delivering:
                self.remove(task)
                task.cancel()
                return True
        return False
