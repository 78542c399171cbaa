"""Runs the jobs, a batch at a time, until it is stopped; every copy of the service does."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from services.admin.store.jobs_sql import JobSession
from shared.errors import InfrastructureError

log = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 0.5


class JobRunner:
    """Looks for a job's next batch, and does it."""

    def __init__(self, dsn: str, databases: Mapping[str, str]) -> None:
        self._dsn = dsn
        self._databases = databases
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Have `run` return after the batch that it is at."""
        self._stopping.set()

    async def run(self) -> None:
        """Work; while the database is out it is tried again."""
        while not self._stopping.is_set():
            try:
                await self._work()
            except InfrastructureError as e:
                log.warning("jobs wait and are tried again", extra={"reason": e.detail})
                await self._pause()

    async def _work(self) -> None:
        session = await asyncio.to_thread(JobSession.open, self._dsn, self._databases)
        try:
            while not self._stopping.is_set():
                if not await asyncio.to_thread(session.work):
                    await self._pause()
        finally:
            await asyncio.to_thread(session.close)

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), _IDLE_SECONDS)
        except TimeoutError:
            return
