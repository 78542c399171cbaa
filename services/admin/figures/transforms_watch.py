"""Reads states, totals and lags of transforms in the background: pages render from the last reading."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from services.admin.background_tasks import UntilStopped
from services.admin.figures.parts import Part, PartStates
from services.ops.transforms.overview import overview
from services.ops.transforms.reader import NO_FACTS, TransformReader
from shared.errors import InfrastructureError
from shared.registry import Snapshot
from shared.transform_state import PAUSED

POLL_SECONDS: Final = 5.0
#: The pause is at least this multiple of a reading's time.
_PAUSES: Final = 25.0


@dataclass(frozen=True, slots=True)
class TransformsReading:
    """The transforms as `/v1/transforms` lists them; while Kafka does not answer, as of the last answer."""

    at: datetime | None = None
    transforms: tuple[dict[str, Any], ...] = ()
    parts: tuple[Part, ...] = ()

    def down(self) -> tuple[Part, ...]:
        """Return Kafka while it does not answer."""
        return tuple(part for part in self.parts if not part.is_up)

    def find(self, name: str) -> dict[str, Any] | None:
        """Return one transform."""
        return next((each for each in self.transforms if each["name"] == name), None)

    @property
    def paused(self) -> tuple[dict[str, Any], ...]:
        """Return the paused transforms."""
        return tuple(each for each in self.transforms if each["state"] == PAUSED)

    @property
    def lag(self) -> int:
        """Return the events that transforms have not processed, of those that have a position."""
        return sum(each["lag"] or 0 for each in self.transforms)


class TransformsWatch(UntilStopped):
    """Reads until stopped; `reading` is the last one."""

    def __init__(self, reader: TransformReader, registry: Callable[[], Snapshot]) -> None:
        super().__init__()
        self._reader = reader
        self._registry = registry
        self._parts = PartStates()
        self.reading = TransformsReading()

    async def _go_on(self) -> None:
        while not self.stopped:
            began = time.monotonic()
            await asyncio.to_thread(self.read)
            await self.pause(max(POLL_SECONDS, _PAUSES * (time.monotonic() - began)))

    def read(self) -> None:
        """Read once, also after a change, so that the next page shows it.

        Without transforms Kafka is not read.
        """
        last = self.reading
        try:
            snapshot = self._registry()
            facts = self._reader.read() if snapshot.transforms else NO_FACTS
        except InfrastructureError as e:
            self._parts.update("kafka", [("Kafka", e.detail)])
            self.reading = TransformsReading(last.at, last.transforms, self._parts.all())
        else:
            self._parts.update("kafka", [("Kafka", "")])
            views = tuple(overview(snapshot, facts))
            self.reading = TransformsReading(datetime.now(UTC), views, self._parts.all())
