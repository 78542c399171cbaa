"""Runs the jobs, a batch at a time, until stopped; every replica of the service does."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from services.admin.background_tasks import SessionTask
from services.admin.jobs.job_session import JobSession
from services.admin.jobs.kafka_transform_replays import TransformReplays
from services.admin.jobs.replay import Retired
from services.admin.segments.folder import Segments
from shared.errors import OnrampError
from shared.kafka_security import Brokers
from shared.registry import Registry

log = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 0.5
#: Batches between two summations of their counts.
_SUM_UP_AFTER: Final = 64


class JobRunner(SessionTask[JobSession]):
    """Runs the next batch of a job."""

    retry_seconds = _IDLE_SECONDS

    def __init__(
        self,
        dsn: str,
        databases: Mapping[str, str],
        registry: Registry,
        segments: Segments | None = None,
        retired: Retired = dict,
        *,
        brokers: Brokers | None = None,
    ) -> None:
        """`registry` names personal fields, which samples hide; `retired`: whether each known database is.

        `brokers`: of the Kafka with the transforms.
        """
        super().__init__()
        self._dsn = dsn
        self._databases = databases
        self._registry = registry
        self._segments = segments
        self._retired = retired
        self._brokers = brokers

    def _open(self) -> JobSession:
        snapshot = self._registry.snapshot
        transforms = TransformReplays(self._brokers, snapshot) if self._brokers else None
        return JobSession.open(
            self._dsn, self._databases, self._segments, snapshot, self._retired, transforms=transforms
        )

    def _waits(self, error: OnrampError) -> None:
        log.warning("jobs are waiting; retrying", extra={"reason": error.detail})

    async def _work(self, session: JobSession) -> None:
        counted = 1  # perhaps by a process that was killed
        while not self.stopped:
            worked = await asyncio.to_thread(session.work)
            counted += worked
            if counted >= _SUM_UP_AFTER or (counted and not worked):
                await asyncio.to_thread(session.sum_up)
                counted = 0
            if not worked:
                await self.pause(_IDLE_SECONDS)
