"""The packer: moves bytes from the control database into segments, and removes expired ones.

It is separate from the ingester: while the segment folder is unreachable, bytes stay in the database.
"""

import asyncio
import logging
import time
from typing import Final

from services.admin.background_tasks import SessionTask
from services.admin.segments.folder import Segments
from services.admin.store.segments_sql import PackerSession
from shared.errors import OnrampError

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 5.0
#: Seconds between expiry runs: retention is counted in days.
_EXPIRE_SECONDS: Final = 3600.0


class Packer(SessionTask[PackerSession]):
    """Packs until stopped; does nothing without a segment folder."""

    retry_seconds = _POLL_SECONDS
    retried = OnrampError

    def __init__(self, dsn: str, segments: Segments | None) -> None:
        super().__init__()
        self._dsn = dsn
        self._segments = segments

    async def run(self) -> None:
        """Pack until stopped, if there is a segment folder."""
        if self._segments:
            await super().run()

    def _open(self) -> PackerSession | None:
        return PackerSession.open(self._dsn, self._segments) if self._segments else None

    def _waits(self, error: OnrampError) -> None:
        log.warning(
            "packing failed: bytes of parked events stay in the control database; retrying",
            extra={"code": error.fault.code, "reason": error.detail},
        )

    async def _work(self, session: PackerSession) -> None:
        expired_at: float | None = None
        while not self.stopped:
            packed = await asyncio.to_thread(session.pack)
            if packed:
                log.info("packed bytes of parked events into a segment", extra={"events": packed})
                continue
            if expired_at is None or time.monotonic() > expired_at + _EXPIRE_SECONDS:
                for error in await asyncio.to_thread(session.expire):
                    log.error("segment not rewritten", extra={"reason": error.detail})
                expired_at = time.monotonic()
            await self.pause(_POLL_SECONDS)
