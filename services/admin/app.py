"""Constructs the admin service and stops it in reverse order.  Nothing else constructs anything.

The keeper and the API share the control database and nothing else: the API answers while Kafka is out, and
while another service keeps.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from fastapi import FastAPI

from services.admin.api.app import api
from services.admin.jobs.runner import JobRunner
from services.admin.keep.keeper import Keeper
from services.admin.keep.packer import Packer
from services.admin.segments.folder import Segments
from shared.kafka_security import Brokers


def create(
    brokers: Brokers, dsn: str, databases: Mapping[str, str], segments: Segments | None = None
) -> FastAPI:
    """Return the service's application; its keeper and its jobs run for as long as the application does."""
    keeper, packer, jobs = Keeper(brokers, dsn), Packer(dsn, segments), JobRunner(dsn, databases, segments)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(part.run()) for part in (keeper, packer, jobs)]
        try:
            yield
        finally:
            for part in (jobs, packer, keeper):
                part.stop()
            await asyncio.gather(*tasks)

    return api(dsn, databases, keeper.status, lifespan, segments)
