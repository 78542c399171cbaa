"""Follows the writer's notes in the background, so that a journey need not read their topic whole."""

import logging
from typing import Final

from services.admin.background_tasks import UntilStopped
from services.ops.journey.finder import Finder
from shared.errors import InfrastructureError

log = logging.getLogger(__name__)

_SECONDS: Final = 30.0


class JourneyWatch(UntilStopped):
    """Refreshes the finder until it is stopped."""

    def __init__(self, finder: Finder) -> None:
        super().__init__()
        self._finder = finder

    async def _go_on(self) -> None:
        """Read until stopped; while Kafka is unreachable each journey says so."""
        while not self.stopped:
            try:
                await self._finder.refresh()
            except InfrastructureError as e:
                log.debug("could not follow the writer's notes", extra={"reason": e.detail})
            await self.pause(_SECONDS)
