"""Typed tables, and packets that land in them through the whole task."""

from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pytest

from services.writer.model.routes import Routes
from services.writer.model.targets import Target
from services.writer.persist.persist import PersistResult, make_constraints_immediate, persist
from services.writer.postgres.pool import transaction
from services.writer.sort.sort import sort
from shared.kafka_read.records import PartitionSlice
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import PARTITION, Bench, arrivals


def destination(table: str, schema: str = "public", **other: Any) -> dict[str, Any]:
    return {"type": "postgres", "vanity": "onramp", "schema": schema, "table": table} | other


def packet(data: bytes | dict[str, Any], *destinations: dict[str, Any]) -> bytes:
    text = data if isinstance(data, bytes) else orjson.dumps(data)
    return b'{"pipeline_context":{"destinations":%b},"data":%b}' % (orjson.dumps(list(destinations)), text)


@dataclass
class Tables:
    """Lands packets without Kafka: what no database decides about is kept beside."""

    bench: Bench
    routes: Routes = field(default_factory=lambda: Routes("onramp"))
    at: int = 0

    def land(self, table: str, *data: Any, **options: Any) -> PersistResult:
        """The outcome of packets with these data for `public.<table>`."""
        done = self.land_values([packet(d, destination(table)) for d in data], **options)
        (found,) = done.values()
        return found

    def land_values(self, values: list[bytes], database: Any = None) -> dict[Target, PersistResult]:
        run = PartitionSlice(PARTITION, arrivals(values, first=self.at))
        self.at += len(values)
        (found,) = sort([run], self.routes)
        assert not found.unroutable, found.unroutable
        target_database = database or self.bench.database
        with transaction(target_database, "land") as conn:
            make_constraints_immediate(conn)
            return {
                target: persist(conn, target_database, target, pa.Table.from_batches([rows]))
                for target, rows in sorted(found.tables.items())
            }


def states(done: PersistResult) -> list[str]:
    """The SQLSTATEs and columns of what was parked, in order."""
    return [p.error.detail for p in done.parked]


@pytest.fixture
def bench(migrated: Database) -> Bench:
    return Bench(migrated.dsn).prepare()


@pytest.fixture
def tables(bench: Bench) -> Tables:
    return Tables(bench)
