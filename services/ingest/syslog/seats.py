"""Who has syslog's connections: of one address all of them would shut out every other sender.

When all are taken, whoever has most gives one up to a newcomer who has fewer: the one that has
been silent for longest.  One of which messages are on their way to Kafka is never given up.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass

Task = asyncio.Task[None]


@dataclass(slots=True)
class _Seat:
    peer: str
    #: Whether it holds messages that are not on Kafka yet.
    delivers: bool = False


class Seats:
    """At most so many connections, by the task that serves each; the longest silent come first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[Task, _Seat] = {}

    def take(self, task: Task, peer: str) -> bool:
        """Have a seat for `peer`; False: there is none."""
        if len(self._taken) >= self._most and not self._make_room(peer):
            return False
        self._taken[task] = _Seat(peer)
        return True

    def leave(self, task: Task) -> None:
        """The connection is over."""
        self._taken.pop(task, None)

    def said(self, task: Task) -> None:
        """It gave messages, which are on their way from now on."""
        seat = self._taken.pop(task, None)
        if seat is not None:
            seat.delivers = True
            self._taken[task] = seat

    def delivered(self, task: Task) -> None:
        """They are on Kafka."""
        seat = self._taken.get(task)
        if seat is not None:
            seat.delivers = False

    @property
    def all(self) -> set[Task]:
        """Every connection."""
        return set(self._taken)

    @property
    def delivering(self) -> set[Task]:
        """Those that hold messages which are not on Kafka yet."""
        return {task for task, seat in self._taken.items() if seat.delivers}

    def _make_room(self, peer: str) -> bool:
        of = Counter(seat.peer for seat in self._taken.values())
        # One more of a newcomer that has as many would only take turns with the other.
        most = max(of.values())
        if of[peer] + 1 >= most:
            return False
        for task, seat in self._taken.items():
            if of[seat.peer] == most and not seat.delivers:
                self.leave(task)
                task.cancel()
                return True
        return False
