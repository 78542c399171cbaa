"""Forks: parent and child each go on with what they were given themselves.

Every client is held still while the process forks, so that the child's copy is whole.  The
parent goes on as before; the child's begins anew, with no event, thread or connection of its
parent's: those are sent by the parent, and would be sent twice.
"""

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """What can be held still."""

    def hold(self) -> None:
        """Let nothing change until `release` or `begin_anew`."""

    def release(self) -> None:
        """In the parent: go on."""

    def begin_anew(self) -> None:
        """In the child: everything of the parent's is the parent's."""


_clients: "weakref.WeakSet[Forked]" = weakref.WeakSet()
_held: list[Forked] = []


def watch(client: Forked) -> None:
    """Hold this client still at every fork, for as long as it lives."""
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
        _held.pop().begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
