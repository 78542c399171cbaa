"""`make bench-lake`: CPU per row from Kafka to Delta tables, compared with reading and sorting alone.

Each round has two parts in one process: `sort` reads real flights, parses them, and builds landing
rows; `whole` does the same and commits them to a table with typed columns.  Figures are the CPU of this
process, without the broker's; ratios are those of one round, in elapsed time.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from services.lake.routes.lake_routes import LakeRoute, LakeRoutes
from services.lake.task.land import land
from services.lake.task.order import LakeOrder
from shared import wire
from shared.kafka_read.offsets import Partition, Range
from shared.kafka_read.range_reader import RangeReader
from shared.kafka_read.records import wanted_of
from shared.kafka_security import Brokers
from shared.lake.lake_tables import LakeTable, Partitioning, properties_of
from shared.lake.settings import LakeStorageSettings
from shared.parse.slices import parse
from stack import flights
from stack.kafka import Kafka

TOPIC: Final = Partition("events.flight_departed", 0)
_MICRO: Final = 1e6
_TYPES: Final = {int: "integer", str: "string"}


class Round(NamedTuple):
    """Microseconds of CPU per row, and events per second."""

    sort: float
    whole: float
    sort_rate: float
    whole_rate: float

    @property
    def ratio(self) -> float:
        """Return the rate of the whole divided by the rate of reading and sorting."""
        return self.whole_rate / self.sort_rate


def main() -> None:
    """Run the rounds, and print their figures and medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partition", choices=[str(each) for each in Partitioning], default="day")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kafka = Kafka(Path(folder) / "kafka")
        kafka.start()
        try:
            kafka.wait_ready()
            schema = _make(kafka.bootstrap, args.events)
            rounds = [
                _round(_order(kafka.bootstrap, Path(folder) / f"lake{n}", args, schema))
                for n in range(args.rounds)
            ]
        finally:
            kafka.stop()
    for each in rounds:
        print(_line("round", each))
    print(_line("median", Round(*(statistics.median(column) for column in zip(*rounds, strict=True)))))


def _line(name: str, each: Round) -> str:
    return (
        f"{name}: read and sort {each.sort:.1f} µs, whole {each.whole:.1f} µs a row; "
        f"{each.sort_rate:,.0f} and {each.whole_rate:,.0f} rows/s, ratio {each.ratio:.2f}"
    )


def _round(order: LakeOrder) -> Round:
    events = sum(len(r) for r in order.ranges.values())
    reader = RangeReader(order.brokers)
    list(reader.read(order.ranges.values()))  # connected, and the broker's cache is warm
    sort_cpu, sort_seconds = _measured(lambda: _sort(order, reader))
    whole_cpu, whole_seconds = _measured(lambda: _land(order, reader))
    reader.close()
    return Round(
        sort_cpu / events * _MICRO, whole_cpu / events * _MICRO, events / sort_seconds, events / whole_seconds
    )


def _measured(work: Callable[[], None]) -> tuple[float, float]:
    cpu, began = time.process_time(), time.monotonic()
    work()
    return time.process_time() - cpu, time.monotonic() - began


def _sort(order: LakeOrder, reader: RangeReader) -> None:
    for piece in reader.read(order.ranges.values()):
        parse(wanted_of(piece))


def _land(order: LakeOrder, reader: RangeReader) -> None:
    report = land(order, list(order.ranges), reader.read(order.ranges.values()))
    rows = sum(table.rows for table in report.tables)
    if rows != sum(len(r) for r in order.ranges.values()):
        raise SystemExit(f"the batch has not landed: {report}")


def _order(bootstrap: str, folder: Path, args: argparse.Namespace, schema: dict[str, Any]) -> LakeOrder:
    table = LakeTable("flights", Partitioning(args.partition), properties_of(schema))
    return LakeOrder(
        ranges={TOPIC: Range("bench", TOPIC, 0, args.events)},
        routes=LakeRoutes((LakeRoute("flight_departed", TOPIC.topic, table),)),
        brokers=Brokers(bootstrap),
        storage=LakeStorageSettings(url=str(folder)).storage,
        owner="bench",
        flush_bytes=64 << 20,
    )


def _make(bootstrap: str, events: int) -> dict[str, Any]:
    """Send flights to the topic, in batches like those of the gateway; return their schema."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(TOPIC.topic, 1, 1)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.num.messages": 500})
    headers = [
        (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES),
        (wire.HEADER_RECEIVED_AT, b"2026-11-21T08:00:01.000000+00:00"),
    ]
    properties: dict[str, Any] = {}
    for envelope in flights.envelopes(events):
        for name, value in envelope["payload"].items():
            if name not in properties and type(value) in _TYPES:
                properties[name] = {"type": _TYPES[type(value)]}
        producer.produce(TOPIC.topic, value=orjson.dumps(envelope), partition=0, headers=list(headers))
        producer.poll(0)
    producer.flush(60)
    return {"properties": properties}


if __name__ == "__main__":
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # as in Spark's workers
    main()
