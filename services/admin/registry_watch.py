"""Polls the registry each second: a removed operator is refused within two."""

import asyncio
from collections.abc import Callable
from typing import Final

from services.admin.background_tasks import UntilStopped
from shared.registry import Registry

_SECONDS: Final = 1.0


class RegistryWatch(UntilStopped):
    """Refreshes the registry until it is stopped."""

    def __init__(self, registry: Registry, seen: Callable[[], None]) -> None:
        """`seen` is called after each poll."""
        super().__init__()
        self._registry = registry
        self._seen = seen

    async def _go_on(self) -> None:
        """Poll until stopped."""
        while not self.stopped:
            await asyncio.to_thread(self._registry.refresh)
            self._seen()
            await self.pause(_SECONDS)
