"""The transform service under load and idle, for `loadtest.bench_transforms`: delays and CPU of its family.

Each measurement starts the service anew.  Events are due at fixed times and carry their due time, so that a
generator that stalls cannot hide a delay; an output's delay ends when a consumer of committed records has it.
"""

import itertools
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import orjson
import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from loadtest.processes import cpu_of
from shared import wire
from shared.registry.transforms import digest_of_source
from stack import services
from stack.registry import OwnRegistry
from stack.services import Service

PARTITIONS: Final = 6
SOURCE_TYPE: Final = "flight_departed"
OUTPUT_TYPE: Final = "made"
SOURCE: Final = """
def transform(event, lookup):
    p = event["payload"]
    return {"event_name": "made", "payload": {"due": p["due"], "carrier": p["carrier"]}}
"""
#: Never ends on its first event.
LOOPING_SOURCE: Final = """
def transform(event, lookup):
    while True:
        pass
"""
#: Seconds after the first output of the last transform that do not count: they have the start's backlog.
_COLD_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 5.0
_WAIT_SECONDS: Final = 180.0


@contextmanager
def running(
    bootstrap: str, topics: tuple[str, str], transforms: dict[str, str], folder: Path
) -> Iterator[Service]:
    """Run the service with `transforms` (sources by name) of one topic to another."""
    source_topic, output_topic = topics
    document = {
        "event_types": {SOURCE_TYPE: {"topic": source_topic}, OUTPUT_TYPE: {"topic": output_topic}},
        "transforms": {
            name: {
                "from": SOURCE_TYPE,
                "to": [OUTPUT_TYPE],
                "source": source,
                "digest": digest_of_source(source),
                "limits": {"cpu_ms": 60_000},
            }
            for name, source in transforms.items()
        },
    }
    own = OwnRegistry(bootstrap, document)
    service = services.transform(bootstrap=bootstrap, dsn="", log=folder / "transform.log", env=own.env)
    service.start()
    try:
        service.wait_ready()
        _await_positions(service, len(transforms))
        yield service
    finally:
        service.kill()


def _await_positions(service: Service, count: int) -> None:
    """Wait until each transform has its first positions and no run."""
    ends = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < ends:
        entries = httpx2.get(f"{service.url}/status", timeout=30).json()["transforms"].values()
        if sum(len(each["lag"]) > PARTITIONS and not each["running_lanes"] for each in entries) == count:
            return
        time.sleep(0.2)
    raise SystemExit("the transforms have not begun")


def delays(
    bootstrap: str, topics: tuple[str, str], names: Collection[str], rate: int, seconds: float
) -> list[float]:
    """Send `rate` events a second; return the sorted delays of the transforms' outputs in ms.

    Only events count that are due after each of the transforms `names` has emitted something.
    """
    source_topic, output_topic = topics
    measured: list[tuple[float, float]] = []
    first_outputs: dict[str, float] = {}
    stop = threading.Event()
    sender = threading.Thread(target=_send, args=(bootstrap, source_topic, rate, stop))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 5,
            "isolation.level": "read_committed",
        }
    )
    with closing(consumer):
        ends = [_end(consumer, output_topic, number) for number in range(PARTITIONS)]
        consumer.assign([TopicPartition(output_topic, n, end) for n, end in enumerate(ends)])
        sender.start()
        last, warm_at, quiet_at = time.time() + _WAIT_SECONDS + seconds, float("inf"), time.time()
        while time.time() < last and (sender.is_alive() or time.time() - quiet_at < _SETTLE_SECONDS):
            for record in consumer.consume(500, 0.01):
                if record.error() is None:
                    now = quiet_at = time.time()
                    document = orjson.loads(record.value() or b"{}")
                    measured.append((document["payload"]["due"], now))
                    first_outputs.setdefault(document["metadata"]["id"].partition(":")[0], now)
            if first_outputs.keys() >= set(names):
                warm_at = max(first_outputs.values()) + _COLD_SECONDS
            if time.time() > warm_at + seconds:
                stop.set()
        stop.set()
    sender.join()
    values = sorted((at - due) * 1000 for due, at in measured if due >= warm_at)
    if not values:
        raise SystemExit(f"not every transform has emitted something: {sorted(first_outputs)}")
    return values


def _end(consumer: Consumer, topic: str, number: int) -> int:
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
    return int(end)


def _send(bootstrap: str, topic: str, rate: int, stop: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2})
    headers: list[tuple[str, Any]] = [
        (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES),
        (wire.HEADER_RECEIVED_AT, b"2026-11-21T08:00:01.000000+00:00"),
    ]
    start = time.time()
    for n in itertools.count():
        due = start + n / rate
        if stop.is_set():
            break
        if (wait := due - time.time()) > 0:
            time.sleep(wait)
        value = {
            "metadata": {"id": f"flight-{n:08}", "timestamp": "2026-11-21T08:00:00Z", "version": "1"},
            "event_name": SOURCE_TYPE,
            "payload": {"carrier": "UA", "dep_delay": n % 90, "due": due},
        }
        producer.produce(topic, orjson.dumps(value), partition=n % PARTITIONS, headers=list(headers))
        producer.poll(0)
    producer.flush(60)


def cpu_seconds(*heads: int) -> float:
    """Return the CPU seconds, so far, of the families of processes."""
    return sum(sum(cpu_of(psutil.Process(head)).values()) for head in heads)


def quantile(values: list[float], share: float) -> float:
    """Return the quantile of sorted values."""
    return values[min(int(share * len(values)), len(values) - 1)] if values else float("nan")


def idle_cpu_ms(service: Service, seconds: float) -> float:
    """Return the CPU milliseconds a second of the idle service and its family."""
    before, began = cpu_seconds(service.pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(service.pid) - before) * 1000 / (time.monotonic() - began)
