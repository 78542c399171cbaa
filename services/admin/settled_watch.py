"""Reads the writer's log of settled work in the background: a request then reads a few new entries."""

import logging
from typing import Final

from services.admin.background_tasks import UntilStopped
from services.ops.kafka_logs import KafkaLogs
from services.ops.settled.reader import SettledReader
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

_SECONDS: Final = 30.0


class SettledWatch(UntilStopped):
    """Refreshes the reader that the service's parts share, until it is stopped."""

    def __init__(self, brokers: Brokers, settled: SettledReader) -> None:
        super().__init__()
        self._brokers = brokers
        self._settled = settled

    async def _go_on(self) -> None:
        """Read until stopped; while Kafka is unreachable each request says so."""
        while not self.stopped:
            try:
                async with KafkaLogs(self._brokers) as logs:
                    await self._settled.refresh(logs)
            except InfrastructureError as e:
                log.debug("could not read the writer's log of settled work", extra={"reason": e.detail})
            await self.pause(_SECONDS)
