"""`make bench-transforms`: CPU per event of a lane run, compared with a bare read and a bare send.

Each round has three parts: `read` polls a topic, `send` puts as many records on the output topic in
transactions of the same size, and `whole` is the lane run with the function in a process of its own, which
emits one output for each event.  Figures are the CPU of this process and of the function's, without the
broker's; ratios are those of one round.

`--part service` runs the whole service: delays at 1,000 events a second, the CPU of further idle transforms,
and the delays of seven transforms with and without an eighth whose function never ends.
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

from loadtest.transform_service_load import (
    LOOPING_SOURCE,
    PARTITIONS,
    cpu_seconds,
    delays,
    idle_cpu_ms,
    quantile,
    running,
)
from loadtest.transform_service_load import SOURCE as SERVICE_SOURCE
from services.transform.driver.kafka_epochs import take_epoch
from services.transform.function.runner_cache import close_all, runner_of
from services.transform.function.transform_code import TransformCode
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

#: Idle transforms besides the first, and transforms that run together with one that never ends.
_FURTHER: Final = 7
#: Events a second that each of several transforms reads.
_SHARED_RATE: Final = 125
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
    parser.add_argument("--part", choices=["all", "cpu", "service"], default="all")
    parser.add_argument("--seconds", type=float, default=40.0, help="Seconds of each load of the service.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kafka = Kafka(Path(folder) / "kafka")
        kafka.start()
        try:
            kafka.wait_ready()
            if args.part != "service":
                _measure_cpu(kafka.bootstrap, args.events, args.rounds)
            if args.part != "cpu":
                _measure_service(kafka.bootstrap, args.seconds, Path(folder))
        finally:
            close_all()
            kafka.stop()


def _measure_cpu(bootstrap: str, events: int, count: int) -> None:
    rounds = [_round(bootstrap, events) for _ in range(count)]
    for each in rounds:
        print(_line("round", each))
    middle = Round(*(statistics.median(column) for column in zip(*rounds, strict=True)))
    print(
        _line("median", middle), f"(of the rounds' ratios: {statistics.median(r.ratio for r in rounds):.2f})"
    )


def _measure_service(bootstrap: str, seconds: float, folder: Path) -> None:
    for rate in (100, 1_000):
        print(f"{rate:,} events/s: {_load(bootstrap, ['bench'], rate, seconds, folder)}")
    idle = {
        count: _idle_ms(bootstrap, [f"bench_{n}" for n in range(count)], seconds, folder)
        for count in (1, 1 + _FURTHER)
    }
    each = (idle[1 + _FURTHER] - idle[1]) / _FURTHER
    print(
        f"idle: {idle[1]:.1f} ms of CPU a second with one transform, {each:.2f} ms more with each further one"
    )
    names = [f"bench_{n}" for n in range(_FURTHER)]
    alone = _load(bootstrap, names, _SHARED_RATE, seconds, folder)
    print(f"{_FURTHER} transforms of {_SHARED_RATE} events/s: {alone}")
    together = _load(bootstrap, names, _SHARED_RATE, seconds, folder, is_one_looping=True)
    print(f"the same, with one that never ends: {together}")
    print(f"p99 with ÷ p99 without: {together.p99 / alone.p99:.2f}")


class Load(NamedTuple):
    """The service under a load: delays of outputs in ms, and CPU milliseconds a second."""

    p50: float
    p99: float
    outputs: int
    cpu_ms: float

    def __str__(self) -> str:
        return (
            f"p50 {self.p50:.0f} ms, p99 {self.p99:.0f} ms of {self.outputs:,} outputs; "
            f"the service used {self.cpu_ms:.0f} ms of CPU a second"
        )


def _load(
    bootstrap: str, names: list[str], rate: int, seconds: float, folder: Path, *, is_one_looping: bool = False
) -> Load:
    topics = _service_topics(bootstrap)
    looping = {"bench_looping": LOOPING_SOURCE} if is_one_looping else {}
    with running(bootstrap, topics, dict.fromkeys(names, SERVICE_SOURCE) | looping, folder) as service:
        before, began = cpu_seconds(service.pid), time.monotonic()
        values = delays(bootstrap, topics, names, rate, seconds)
        spent = (cpu_seconds(service.pid) - before) * 1000 / (time.monotonic() - began)
    return Load(quantile(values, 0.5), quantile(values, 0.99), len(values), spent)


def _idle_ms(bootstrap: str, names: list[str], seconds: float, folder: Path) -> float:
    with running(
        bootstrap, _service_topics(bootstrap), dict.fromkeys(names, SERVICE_SOURCE), folder
    ) as service:
        return idle_cpu_ms(service, seconds)


def _service_topics(bootstrap: str) -> tuple[str, str]:
    name = uuid.uuid4().hex[:8]
    topics = f"events.bench_{name}", f"events.bench_{name}_made"
    _topics(bootstrap, {spec.name: spec.partitions for spec in TRANSFORM_TOPICS})
    _topics(bootstrap, dict.fromkeys(topics, PARTITIONS))
    return topics


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
