"""Forks: parent and child each send the events that they queued themselves.

Every client is locked while the process forks, so that the child's copy is consistent.  The
parent goes on as before; the child's client starts again, without the events, threads and
connections of its parent: the parent sends those, and they would be sent twice.
"""

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """A client as a fork needs it."""

    def hold(self) -> None:
        """Let nothing change until `release` or `reset_in_child`."""

    def release(self) -> None:
        """Go on; called in the parent."""

    def reset_in_child(self) -> None:
        """Drop what is the parent's, and start again; called in the child."""


_clients: "weakref.WeakSet[Forked]" = weakref.WeakSet()
_held: list[Forked] = []


def watch(client: Forked) -> None:
    """Lock this client at every fork, for as long as it exists."""
    _clients.add(client)


def _before() -> None:
    for client in sorted(_clients, key=id):
        client.hold()
        _held.append(client)


def _in_parent() -> None:
    while _held:
        _held.pop().release()


def _in_child() -> None:
    while _held:
        _held.pop().reset_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
