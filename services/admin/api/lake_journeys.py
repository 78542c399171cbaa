"""Adds the lake to journeys if its storage is configured; a storage that hangs costs two seconds.

Importing Delta takes a second and memory, so an admin service without tables of a lake never does.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from services.ops.journey.timeline import Journey
from shared.lake.storage import Storage
from shared.patience import Patience, SilentError
from shared.registry.entries import EMPTY, Snapshot

_SECONDS: Final = 2.0
#: Journeys that read the lake at a time.
_AT_ONCE: Final = 4


class LakeJourneys:
    """The lake of journeys; for many threads."""

    def __init__(
        self, storage: Storage, registry: Callable[[], Snapshot | None], seconds: float = _SECONDS
    ) -> None:
        """`registry` returns the snapshot in force, which says which table a type has."""
        self._storage = storage
        self._registry = registry
        self._seconds = seconds
        self._patience = Patience(at_once=_AT_ONCE)

    def add_to(self, journey: Journey) -> Journey:
        """Return the journey with the lake, or with a sentence that the storage does not answer."""
        try:
            if self._patience.call(self._storage.is_empty_folder, self._seconds):
                return journey
            from services.ops.audit.lake import Lake  # noqa: PLC0415
            from services.ops.journey.lake import with_lake  # noqa: PLC0415

            lake = Lake(self._storage, self._registry() or EMPTY)
            return self._patience.call(lambda: with_lake(journey, lake), self._seconds)
        except SilentError:
            sentence = (
                f"the storage of the lake did not answer in {self._seconds:g} s: whether the event is "
                "in the lake is unknown."
            )
            return replace(journey, unknown=(*journey.unknown, sentence))
