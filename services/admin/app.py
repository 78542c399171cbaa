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
from shared.kafka_security import Brokers


def create(brokers: Brokers, dsn: str, databases: Mapping[str, str]) -> FastAPI:
    """Return the service's application; its keeper and its jobs run for as long as the application does."""
    keeper, jobs = Keeper(brokers, dsn), JobRunner(dsn, databases)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(part.run()) for part in (keeper, jobs)]
        try:
            yield
        finally:
            for part in (jobs, keeper):
                part.stop()
            await asyncio.gather(*tasks)

    return api(dsn, databases, keeper.status, lifespan)
