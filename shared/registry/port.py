"""The port of the registry: services ask for snapshots and do not know where they come from."""

from collections.abc import Callable
from typing import Protocol

from shared.registry.model import Snapshot

#: A service's own check beyond the model, e.g. that JSON Schemas compile; raises `ValueError`.
Check = Callable[[Snapshot], None]


def no_check(_: Snapshot) -> None:
    """Accept every snapshot."""


class Registry(Protocol):
    """Where event types and keys are kept.

    A snapshot is immutable and valid as a whole; a change appears as another snapshot
    within two seconds of `refresh` being called at least once a second.  A change that is
    not valid never appears: the last valid snapshot stays.
    """

    def snapshot(self) -> Snapshot:
        """Return the present snapshot.  Costs nothing: the source is not read."""
        ...

    @property
    def is_read(self) -> bool:
        """Whether there is a snapshot; until then `snapshot` raises `InfrastructureError` REGISTRY_UNREAD."""
        ...

    @property
    def is_valid(self) -> bool:
        """Whether the snapshot is what the source says: False while a wrong change is not taken over."""
        ...

    def refresh(self) -> bool:
        """Check the source; return whether the snapshot changed.  Never raises.

        It may be called from another thread than `snapshot`.
        """
        ...

    def has_removed(self, section: str, name: str) -> bool:
        """Whether a change removed the entry; an entry that is missing in a lost registry was not removed."""
        ...

    def close(self) -> None:
        """Let go of the source; a look that is under way ends."""
        ...
