"""The port of the registry: services get snapshots independent of their source."""

from collections.abc import Callable
from typing import Protocol

from shared.registry.entries import Snapshot

#: A service's additional check, e.g. that JSON Schemas compile; raises `ValueError`.
Check = Callable[[Snapshot], None]


def no_check(_: Snapshot) -> None:
    """Accept every snapshot."""


class Registry(Protocol):
    """The source of event types and keys.

    A snapshot is immutable and valid as a whole; a change appears as another snapshot
    within two seconds of `refresh` being called at least once a second.  A change that is
    not valid never appears: the last valid snapshot remains.
    """

    def snapshot(self) -> Snapshot:
        """Return the current snapshot, at no cost: the source is not read."""
        ...

    @property
    def is_read(self) -> bool:
        """Return whether there is a snapshot; else `snapshot` raises REGISTRY_UNREAD."""
        ...

    @property
    def is_valid(self) -> bool:
        """Return whether the snapshot matches the source: False while an invalid change is refused."""
        ...

    @property
    def is_blank(self) -> bool:
        """Return whether the snapshot is of a source without any change: a new registry, or a lost one."""
        ...

    def refresh(self) -> bool:
        """Check the source; return whether the snapshot changed.  Never raises.

        It may be called from another thread than `snapshot`.
        """
        ...

    def has_removed(self, section: str, name: str) -> bool:
        """Return whether a change removed the entry; False if it is missing in a lost registry."""
        ...

    def close(self) -> None:
        """Close the source; a running refresh ends."""
        ...
