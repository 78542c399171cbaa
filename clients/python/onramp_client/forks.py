"""Fork handling: parent and child each send the events that they queued themselves.

Every client is locked while the process forks, so that the child's copy is consistent.  The
parent continues unchanged; the child's client is reset, without the events, threads and
connections of its parent, because the parent sends those.
"""

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """The interface of a client for fork handling."""

    def hold(self) -> None:
        """Lock the state until `release` or `reset_in_child`."""

    def release(self) -> None:
        """Unlock the state; called in the parent."""

    def reset_in_child(self) -> None:
        """Drop the parent's state and reset; called in the child."""


_clients: "weakref.WeakSet[Forked]" = weakref.WeakSet()
_locked: list[Forked] = []


def watch(client: Forked) -> None:
    """Lock this client at every fork while it exists."""
    _clients.add(client)


def _before() -> None:
    for client in sorted(_clients, key=id):
        client.hold()
        _locked.append(client)


def _in_parent() -> None:
    while _locked:
        _locked.pop().release()


def _in_child() -> None:
    while _locked:
        _locked.pop().reset_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
