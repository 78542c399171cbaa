"""Looks at groups, round by round, until it is stopped; one service of several does.

It is bounded by the hour, and waits between rounds: the writer lands what it rehearses before it rolls back,
so rehearsals cost a database what as many rows do.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Final

from services.admin.background_tasks import UntilStopped
from services.admin.group_rehearsals.group_rehearsals_sql import AT_ONCE, RehearsalSession
from services.admin.segments.folder import Segments
from shared.errors import InfrastructureError
from shared.registry import Registry

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 1.0
#: After a change of the registry: until the writer has it too.
SETTLED_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 5.0
_HOUR: Final = 3600.0


class RehearsalScheduler(UntilStopped):
    """Has some events of each open group rehearsed, so many groups an hour at most; 0: none."""

    def __init__(
        self,
        dsn: str,
        databases: Mapping[str, str],
        registry: Registry,
        segments: Segments | None = None,
        *,
        per_hour: int,
        settled_seconds: float = SETTLED_SECONDS,
    ) -> None:
        super().__init__()
        self._dsn = dsn
        self._databases = databases
        self._registry = registry
        self._segments = segments
        self._per_hour = per_hour
        self._settled_seconds = settled_seconds
        #: The registry's digest, and since when it is this one.
        self._digest = ("", 0.0)
        self._next_round = 0.0

    async def _go_on(self) -> None:
        """Look; while the control database is out it is tried again."""
        while self._per_hour and not self.stopped:
            try:
                await self._work()
            except InfrastructureError as e:
                log.warning("groups are not looked at, and it is tried again", extra={"reason": e.detail})
            await self.pause(_AGAIN_SECONDS)

    async def _work(self) -> None:
        session = await asyncio.to_thread(RehearsalSession.open, self._dsn, self._databases, self._segments)
        if session is None:
            return
        try:
            while not self.stopped:
                if not await asyncio.to_thread(session.go_on) and (digest := self._settled()):
                    await self._begin(session, digest)
                await self.pause(_LOOK_SECONDS)
        finally:
            await asyncio.to_thread(session.close)

    async def _begin(self, session: RehearsalSession, digest: str) -> None:
        """Begin a round, if the last one is long enough ago for the bound of an hour."""
        if time.monotonic() >= self._next_round:
            begun = await asyncio.to_thread(session.begin, digest, min(AT_ONCE, self._per_hour))
            self._next_round = time.monotonic() + begun * _HOUR / self._per_hour

    def _settled(self) -> str:
        """Return the registry's digest once it has been the same for a while; else nothing."""
        if not self._registry.is_read:
            return ""
        digest, now = self._registry.snapshot().digest, time.monotonic()
        if digest != self._digest[0]:
            self._digest = (digest, now)
        return digest if now >= self._digest[1] + self._settled_seconds else ""
