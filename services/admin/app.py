"""Constructs the admin service and stops it in reverse order.  Nothing else constructs anything.

The keeper and the API share the control database and nothing else: the API answers while Kafka is out, and
while another service keeps.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from services.admin.api.app import api
from services.admin.keep.keeper import Keeper
from shared.kafka_security import Brokers


def create(brokers: Brokers, dsn: str) -> FastAPI:
    """Return the service's application; its keeper runs for as long as the application does."""
    keeper = Keeper(brokers, dsn)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(keeper.run())
        try:
            yield
        finally:
            keeper.stop()
            await task

    return api(dsn, keeper.status, lifespan)
