"""Batches of the lake without Kafka: records in memory, tables in a folder."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from services.lake.routes.lake_routes import LakeRoute, LakeRoutes
from services.lake.task.land import land
from services.lake.task.order import LakeOrder, LakeReport, TableReport
from shared.kafka_read.offsets import Partition, Range
from shared.kafka_security import Brokers
from shared.lake.lake_tables import LakeTable, Partitioning, properties_of
from shared.lake.lake_topic import PositionKey
from shared.lake.settings import LakeStorageSettings
from shared.lake.transactions import TablePosition
from tests.fixtures.writer import arrivals, event, read

P0, P1 = Partition("events.flight", 0), Partition("events.flight", 1)
TOPIC_ID = "5b1f"
SCHEMA = {"properties": {"n": {"type": "integer"}, "origin": {"type": "string"}}}


def key(partition: Partition = P0, table: str = "flights") -> PositionKey:
    return PositionKey(table, partition.topic, TOPIC_ID, partition.number)


class Lake:
    """A lake in a folder; `land` is one batch of one task."""

    def __init__(self, folder: Path, schema: Mapping[str, Any] = SCHEMA, **table: Any) -> None:
        self.folder = folder
        self.schema = schema
        self.table_options = table
        self.is_all = False
        #: Types with routes; the table of a type other than `flight` has its name.
        self.routed: Sequence[str] = ("flight",)
        self.storage = LakeStorageSettings(url=str(folder)).storage
        self.owner = "cluster"
        self.positions: dict[PositionKey, TablePosition] = {}
        self.starts: dict[PositionKey, int] = {}
        self.flush_bytes = 1 << 30

    def order(self, *ranges: Range) -> LakeOrder:
        table = LakeTable("flights", **{"properties": properties_of(self.schema), **self.table_options})
        routes = [
            LakeRoute(name, P0.topic, table if name == "flight" else LakeTable(name)) for name in self.routed
        ]
        return LakeOrder(
            ranges={r.partition: r for r in ranges},
            routes=LakeRoutes(tuple(routes), is_all=self.is_all),
            brokers=Brokers("nowhere:1"),
            storage=self.storage,
            owner=self.owner,
            flush_bytes=self.flush_bytes,
            starts=self.starts,
            positions=self.positions,
        )

    def land(
        self, values: Iterable[bytes | None], *, first: int = 0, partition: Partition = P0
    ) -> LakeReport:
        """Land the values, at offsets from `first` on."""
        records = arrivals(values, first=first, partition=partition)
        end = first + records.num_rows
        return land(self.order(Range(TOPIC_ID, partition, first, end)), [partition], read(records))

    def land_flights(self, numbers: range, partition: Partition = P0) -> TableReport:
        """Land events at the offsets `numbers`."""
        values = [event(f"{partition.number}-{n}", "flight", n=n) for n in numbers]
        (table,) = self.land(values, first=numbers.start, partition=partition).tables
        return table

    def delta(self, name: str = "flights") -> DeltaTable:
        return DeltaTable(str(self.folder / name))

    def rows(self, name: str = "flights") -> pa.Table:
        return self.delta(name).to_pyarrow_table().sort_by("_offset")

    def offsets(self) -> list[int]:
        offsets: list[int] = self.rows()["_offset"].to_pylist()
        return offsets


def partitioning(name: str) -> dict[str, Any]:
    return {"partitioning": Partitioning(name)}
