"""Rehearses open groups, round by round, until stopped; one replica of several does.

The rate is limited by the hour: the writer inserts the rows of a rehearsal and rolls back, so rehearsals
cost a database as much as landing as many rows.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Final

from services.admin.background_tasks import SessionTask
from services.admin.group_rehearsals.group_rehearsals_sql import AT_ONCE, RehearsalSession
from services.admin.segments.folder import Segments
from shared.errors import OnrampError
from shared.registry import Registry

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 1.0
#: Seconds after a change of the registry until the writer has it too.
SETTLED_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 5.0
_HOUR: Final = 3600.0


class RehearsalScheduler(SessionTask[RehearsalSession]):
    """Has some events of each open group rehearsed, at most `per_hour` groups an hour; 0 disables it."""

    retry_seconds = _RETRY_SECONDS

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
        #: The registry's digest, and the time of its last change.
        self._digest = ("", 0.0)
        self._next_round = 0.0

    async def run(self) -> None:
        """Rehearse until stopped, unless it is disabled."""
        if self._per_hour:
            await super().run()

    def _open(self) -> RehearsalSession | None:
        return RehearsalSession.open(self._dsn, self._databases, self._segments)

    def _waits(self, error: OnrampError) -> None:
        log.warning("group rehearsals failed; retrying", extra={"reason": error.detail})

    async def _work(self, session: RehearsalSession) -> None:
        while not self.stopped:
            if not await asyncio.to_thread(session.go_on) and (digest := self._settled()):
                await self._begin(session, digest)
            await self.pause(_POLL_SECONDS)

    async def _begin(self, session: RehearsalSession, digest: str) -> None:
        """Begin a round, if the hourly limit permits one."""
        if time.monotonic() >= self._next_round:
            begun = await asyncio.to_thread(session.begin, digest, min(AT_ONCE, self._per_hour))
            self._next_round = time.monotonic() + begun * _HOUR / self._per_hour

    def _settled(self) -> str:
        """Return the registry's digest once it was unchanged for `settled_seconds`, else an empty text."""
        if not self._registry.is_read:
            return ""
        digest, now = self._registry.snapshot().digest, time.monotonic()
        if digest != self._digest[0]:
            self._digest = (digest, now)
        return digest if now >= self._digest[1] + self._settled_seconds else ""
