"""`make bench-transforms`: CPU per event of a lane run, compared with a bare read and a bare send.

Each round has three parts: `read` polls a topic, `send` puts as many records on the output topic in
transactions of the same size, and `whole` is the lane run with the function in a process of its own, which
emits one output for each event.  Figures are the CPU of this process and of the function's, without the
broker's; ratios are those of one round.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from services.transform.driver.kafka_epochs import take_epoch
from services.transform.function.code import TransformCode
from services.transform.function.runners import close_all, runner_of
from services.transform.lane import task
from services.transform.lane.kafka_transaction import LaneProducer, OutgoingRecord
from services.transform.lane.order import MAX_EVENTS, LaneOrder
from shared import wire
from shared.kafka_read.fetch import Fetcher
from shared.kafka_read.offsets import Partition
from shared.kafka_security import Brokers
from shared.registry.transforms import TransformLimits, digest_of_source
from shared.topics import TRANSFORM_TOPICS
from shared.transform_totals import Position, Totals
from stack.kafka import Kafka

PARTITIONS: Final = 6
SOURCE: Final = """
def transform(event, lookup):
    p = event["payload"]
    return {"event_name": "made", "payload": {"carrier": p["carrier"], "minutes": p["dep_delay"]}}
"""
_MICRO: Final = 1e6


class Round(NamedTuple):
    """Microseconds of CPU per event."""

    read: float
    send: float
    whole: float

    @property
    def ratio(self) -> float:
        """Return the whole divided by the bare read and the bare send."""
        return self.whole / (self.read + self.send)


def main() -> None:
    """Run the rounds, and print their figures and medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=120_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kafka = Kafka(Path(folder) / "kafka")
        kafka.start()
        try:
            kafka.wait_ready()
            rounds = [_round(kafka.bootstrap, args.events) for _ in range(args.rounds)]
        finally:
            close_all()
            kafka.stop()
    for each in rounds:
        print(_line("round", each))
    middle = Round(*(statistics.median(column) for column in zip(*rounds, strict=True)))
    print(
        _line("median", middle), f"(of the rounds' ratios: {statistics.median(r.ratio for r in rounds):.2f})"
    )


def _line(name: str, each: Round) -> str:
    return (
        f"{name}: read {each.read:.1f} µs, send {each.send:.1f} µs, whole {each.whole:.1f} µs an event; "
        f"whole ÷ (read + send) = {each.ratio:.2f}"
    )


def _round(bootstrap: str, events: int) -> Round:
    order = _order(bootstrap)
    _make(bootstrap, order, events)
    return Round(
        read=_cpu(lambda: _read(order, events)) / events * _MICRO,
        send=_cpu(lambda: _send(order, events)) / events * _MICRO,
        whole=_whole(order, events) / events * _MICRO,
    )


def _cpu(work: Callable[[], Awaitable[None]]) -> float:
    async def run() -> float:
        began = time.process_time()
        await work()
        return time.process_time() - began

    return asyncio.run(run())


def _whole(order: LaneOrder, events: int) -> float:
    """Return the CPU seconds of a run, including those of the function's process."""
    limits = TransformLimits()
    runner = runner_of(TransformCode(order.name, SOURCE, order.digest, limits), {})
    before, began = runner.cpu_seconds(), time.process_time()
    report = asyncio.run(task.run(order, runner))
    spent = time.process_time() - began + runner.cpu_seconds() - before
    if report.fault is not None or report.events != events:
        raise SystemExit(f"the run has not processed {events} events: {report}")
    return spent


async def _read(order: LaneOrder, events: int) -> None:
    fetcher = Fetcher(order.brokers)
    await fetcher.start()
    positions, left = {Partition(order.source_topic, n): 0 for n in range(PARTITIONS)}, events
    while left > 0:
        new = await fetcher.poll(positions)
        positions, left = new.positions, left - sum(len(each) for each in new.slices)
    await fetcher.stop()


async def _send(order: LaneOrder, events: int) -> None:
    """Send as many outputs as `whole`, in as many transactions."""
    value = orjson.dumps(
        {
            "metadata": {"id": f"{order.name}:0-000000", "timestamp": "2026-11-21T08:00:00Z", "version": "1"},
            "event_name": "made",
            "payload": {"carrier": "UA", "minutes": 12},
        }
    )
    headers = [
        (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES),
        (wire.HEADER_RECEIVED_AT, b"2026-11-21T08:00:01.000000+00:00"),
        (wire.HEADER_SOURCE, b"events.source/0/123456"),
        (wire.HEADER_TRANSFORM, order.version.encode()),
    ]
    producer = LaneProducer(order.brokers, f"{order.transactional_id}-bare")
    await producer.fence()
    for first in range(0, events, MAX_EVENTS):
        batch = (
            OutgoingRecord(order.topic_of("made"), str(n).encode(), value, headers)
            for n in range(first, min(first + MAX_EVENTS, events))
        )
        position = Position(first, Totals(topic_id="", first=0))
        await producer.commit(batch, f"{order.group}-bare", {Partition(order.source_topic, 0): position})
    await producer.stop()


def _order(bootstrap: str) -> LaneOrder:
    name = f"bench_{uuid.uuid4().hex[:8]}"
    brokers = Brokers(bootstrap)
    _topics(bootstrap, {spec.name: spec.partitions for spec in TRANSFORM_TOPICS})
    _topics(bootstrap, dict.fromkeys((f"events.{name}", "events.made"), PARTITIONS))
    return LaneOrder(
        name=name,
        lane=0,
        lanes=1,
        epoch=asyncio.run(take_epoch(brokers, {name: 1})),
        source_type="flight_departed",
        source_topic=f"events.{name}",
        start="earliest",
        digest=digest_of_source(SOURCE),
        event_types={},
        outputs=frozenset({"made"}),
        brokers=brokers,
        budget_seconds=600.0,
    )


def _topics(bootstrap: str, partitions: dict[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    known = admin.list_topics(timeout=20).topics
    new = [NewTopic(name, count, 1) for name, count in partitions.items() if name not in known]
    for future in admin.create_topics(new).values() if new else ():
        future.result(30)


def _make(bootstrap: str, order: LaneOrder, events: int) -> None:
    """Put flights on the source topic, in batches as the gateway makes them."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.num.messages": 500})
    headers = [
        (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES),
        (wire.HEADER_RECEIVED_AT, b"2026-11-21T08:00:01.000000+00:00"),
    ]
    for n in range(events):
        value = {
            "metadata": {"id": f"flight-{n:08}", "timestamp": "2026-11-21T08:00:00Z", "version": "1"},
            "event_name": "flight_departed",
            "payload": {
                "carrier": "UA",
                "flight": n % 5000,
                "origin": "EWR",
                "dest": "IAH",
                "dep_delay": n % 90,
            },
        }
        producer.produce(
            order.source_topic, value=orjson.dumps(value), partition=n % PARTITIONS, headers=list(headers)
        )
        producer.poll(0)
    producer.flush(60)


if __name__ == "__main__":
    main()
