"""The limit of syslog connections, shared fairly: one address must not block all others.

When all are in use, a new connection replaces one of the address with most, if its own address has
fewer: the one with the longest silence. A connection whose messages are not on Kafka yet
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
    """The open connections by their serving task, longest silent first; at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[Task, _Connection] = {}

    def add(self, task: Task, peer: str) -> bool:
        """Add a connection of `peer`, replacing another if needed; return False if there is no room."""
        if len(self._open) >= self._limit and not self._make_room(peer):
            return False
        self._open[task] = _Connection(peer)
        return True

    def remove(self, task: Task) -> None:
        """Remove a connection, if it was not replaced already."""
        self._open.pop(task, None)

    def received(self, task: Task) -> None:
        """Record that messages were received and are being delivered."""
        connection = self._open.pop(task, None)
        if connection is not None:
            connection.delivering = True
            self._open[task] = connection

    def delivered(self, task: Task) -> None:
        """Record that its messages are on Kafka."""
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
        # With equal counts the two addresses would only replace each other in turn.
        maximum = max(per_peer.values())
        if per_peer[peer] + 1 >= maximum:
            return False
        for task, connection in self._open.items():
            if per_peer[connection.peer] == maximum and not connection.delivering:
                self.remove(task)
                task.cancel()
                return True
        return False
