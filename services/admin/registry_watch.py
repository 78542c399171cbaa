"""Polls the registry each second: a removed operator is refused within two.

The poll has a thread of its own: those of the event loop may all wait for slow databases.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from services.admin.background_tasks import UntilStopped
from shared.registry import Registry

_SECONDS: Final = 1.0


class RegistryWatch(UntilStopped):
    """Refreshes the registry until it is stopped."""

    def __init__(self, registry: Registry, on_poll: Callable[[], None]) -> None:
        """`on_poll` is called after each poll."""
        super().__init__()
        self._registry = registry
        self._on_poll = on_poll

    async def _go_on(self) -> None:
        """Poll until stopped."""
        loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1, "registry-watch")
        try:
            while not self.stopped:
                await loop.run_in_executor(thread, self._registry.refresh)
                self._on_poll()
                await self.pause(_SECONDS)
        finally:
            thread.shutdown(wait=False)
