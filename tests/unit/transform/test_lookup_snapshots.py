"""Slow tables of one database delay neither the driver's loop nor the tables of another database."""

import asyncio
import threading

from services.transform.driver.lookup_snapshots import LookupSnapshots
from services.transform.function.lookups import LookupTable, table_of
from services.transform.observe.metrics import TransformMetrics
from shared.errors import TRANSFORM_LOOKUP_UNREADABLE, InfrastructureError
from shared.registry.transforms import Lookup
from tests.fixtures.transform_driver import InlineJobs
from tests.fixtures.writer import eventually

AIRLINES = ("airlines",)
#: More than the threads of an event loop on any machine.
SLOW = [f"slow_{n}" for n in range(40)]


def lookup(database: str) -> Lookup:
    return Lookup(database=database, table="public.airlines", key="carrier", columns=("name",))


class Tables:
    """Reads tables; those of the database `slow` wait."""

    def __init__(self) -> None:
        self.are_read = threading.Event()

    def read(self, name: str, each: Lookup) -> LookupTable:
        if each.database == "slow":
            self.are_read.wait()
        if each.database == "absent":
            raise InfrastructureError(TRANSFORM_LOOKUP_UNREADABLE, f"lookup {name}: no such table")
        return table_of(name, {})


def test_slow_tables_of_a_database_delay_no_other_work() -> None:
    tables = Tables()

    async def run() -> None:
        snapshots = LookupSnapshots(InlineJobs(), tables.read, TransformMetrics())
        snapshots.follow({**{name: lookup("slow") for name in SLOW}, "airlines": lookup("fast")})
        try:
            async with asyncio.timeout(10):
                await asyncio.to_thread(eventually, lambda: isinstance(snapshots.tables(AIRLINES), dict))
                await snapshots.stop()
        finally:
            tables.are_read.set()

    asyncio.run(run())


def test_the_wait_for_a_table_has_its_reason() -> None:
    async def run() -> str:
        snapshots = LookupSnapshots(InlineJobs(), Tables().read, TransformMetrics())
        snapshots.follow({"airlines": lookup("absent")})
        async with asyncio.timeout(10):
            await asyncio.to_thread(eventually, lambda: str(snapshots.tables(AIRLINES)).endswith("table"))
            await snapshots.stop()
        return str(snapshots.tables(AIRLINES))

    assert asyncio.run(run()) == "lookup airlines has not been read yet: no such table"
