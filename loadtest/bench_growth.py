"""``python -m loadtest.bench_growth``: growth of the writer's memory and topics (ADR 17).

`large`: the most memory that the writer takes for a backlog of events of 100 kB.  `outage`: what a
database that is out leaves on `onramp.system_errors` in a minute, when one of many topics is its own.
`names`: what a transaction locks, and how long single events take, after packets for tables that
clients invent.  Each case is one run of the writer on Kafka and Postgres of its own.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg2
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg2.extensions import connection

from loadtest import growth_page
from loadtest.background import repeatedly
from loadtest.bench_writer import MEMORY_SECONDS, Memory, parts, settled
from loadtest.pages import RESULTS
from loadtest.report import machine, versions
from shared import wire
from stack.kafka import Kafka
from stack.postgres import Postgres
from stack.registry import OwnRegistry
from stack.services import Service, writer

#: No server listens there.
_NOWHERE: Final = "postgresql://nobody@127.0.0.1:9/nowhere"
_HEADERS: Final = [(wire.HEADER_CONTEXT, wire.CONTEXT_BYTES)]
_PATIENCE_SECONDS: Final = 300.0
_MAX_IN_FLIGHT: Final = 1000
_ABSENT_TABLE: Final = "events.bench_absent"
_WATCHED: Final = "SELECT count(*) FROM onramp.holds"


class Bench:
    """A writer with its Kafka and its databases."""

    def __init__(self, kafka: Kafka, postgres: Postgres, folder: Path, **settings: str) -> None:
        self.bootstrap = kafka.bootstrap
        self.conn: connection = psycopg2.connect(postgres.dsn)
        self.conn.autocommit = True
        env = {f"ONRAMP_WRITER_{name.upper()}": value for name, value in settings.items() if name.islower()}
        env |= {name: value for name, value in settings.items() if name.isupper()}
        env |= {"ONRAMP_WRITER_MASTER": "local[2]"}
        self.service: Service = writer(
            bootstrap=kafka.bootstrap, dsn=postgres.dsn, log=folder / "writer.log", env=env
        )
        self.producer = Producer({"bootstrap.servers": kafka.bootstrap, "message.max.bytes": 1 << 20})
        self.sent = 0

    def make(self, *topics: str) -> None:
        """Create topics of one partition."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
            made.result()

    def send(self, topic: str, values: Iterator[bytes]) -> None:
        """Put `values` on Kafka."""
        for value in values:
            while len(self.producer) > _MAX_IN_FLIGHT:
                self.producer.poll(0.05)
            self.producer.produce(topic, value, headers=_HEADERS)
            self.sent += 1
        self.producer.flush()

    def wait(self, seconds: float = _PATIENCE_SECONDS) -> float:
        """Wait until the default database has settled all sent events; return the seconds."""
        began = time.perf_counter()
        while settled(self.conn) < self.sent:
            self.service.check()
            if time.perf_counter() - began > seconds:
                raise TimeoutError(f"{settled(self.conn)} of {self.sent} events settled")
            time.sleep(0.01)
        return time.perf_counter() - began

    def ask(self, statement: str) -> int:
        """Return the number that `statement` gives."""
        with self.conn.cursor() as cursor:
            cursor.execute(statement)
            return int((cursor.fetchone() or [0])[0])


def large(bench: Bench, args: argparse.Namespace) -> dict[str, Any]:
    """Settle a backlog of events of 100 kB; return the most memory of the writer's processes together."""
    note = "x" * args.bytes
    bench.make("events.bench")
    bench.send("events.bench", (_envelope("bench", n, note) for n in range(args.events)))
    memory = Memory(bench.service)
    with repeatedly(MEMORY_SECONDS / 10, memory.sample):
        bench.service.start()
        took = bench.wait()
    return {
        "events": args.events,
        "event_bytes": args.bytes,
        "most_pss_mib": round(sum(memory.peak.values()), 1),
        "pss_mib_then": memory.peak,
        "seconds": round(took, 1),
    }


def outage(bench: Bench, args: argparse.Namespace) -> dict[str, Any]:
    """Send each topic an event every 0.1 s; the events of the first are for the unreachable database."""
    names = [f"bench_{n}" for n in range(args.topics)]
    bench.make(*map(wire.topic_of, names))
    bench.service.start()
    bench.service.wait_ready()
    for name in names:  # tables and ledgers
        bench.send(wire.topic_of(name), iter([_envelope(name, 0, "")]))
    bench.wait()
    before, began, n = _left(bench.bootstrap), time.perf_counter(), 0
    while time.perf_counter() - began < args.seconds:
        n += 1
        for name in names:
            bench.producer.produce(wire.topic_of(name), _envelope(name, n, ""), headers=_HEADERS)
            bench.sent += 1
        bench.producer.flush()
        time.sleep(0.1)
    bench.wait()
    minutes = (time.perf_counter() - began) / 60
    after = _left(bench.bootstrap)
    return {
        "topics": args.topics,
        "seconds": round(minutes * 60, 1),
        **{f"{key}_a_minute": round((after[key] - before[key]) / minutes) for key in after},
    }


def names(bench: Bench, args: argparse.Namespace) -> dict[str, Any]:
    """Send packets that each name another missing table, then single events."""
    bench.make(_ABSENT_TABLE, "events.bench")
    bench.service.start()
    bench.service.wait_ready()
    bench.send("events.bench", iter([_envelope("bench", -1, "")]))
    bench.wait()
    before = [_one(bench, n) for n in range(args.singles)]
    bench.send(_ABSENT_TABLE, (_packet(n) for n in range(args.names)))
    took = bench.wait()
    after = [_one(bench, n) for n in range(args.singles, 2 * args.singles)]
    return {
        "names": args.names,
        "rows_watched": bench.ask(_WATCHED),
        "parked": bench.ask("SELECT coalesce(sum(events), 0) FROM onramp.totals WHERE outcome = 'parked'"),
        "seconds": round(took, 1),
        "single_ms_before": round(statistics.median(before) * 1000, 1),
        "single_ms_after": round(statistics.median(after) * 1000, 1),
    }


def _one(bench: Bench, n: int) -> float:
    bench.send("events.bench", iter([_envelope("bench", n, "")]))
    return bench.wait()


def _left(bootstrap: str) -> dict[str, int]:
    """Return the records on `onramp.system_errors` that are no events, their bytes, and all bytes."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    numbers = consumer.list_topics(wire.SYSTEM_ERRORS, timeout=20).topics[wire.SYSTEM_ERRORS].partitions
    sizes = {"closing_records": 0, "closing_bytes": 0, "bytes": 0}
    for n in numbers:
        partition = TopicPartition(wire.SYSTEM_ERRORS, n, 0)
        _, end = consumer.get_watermark_offsets(partition)
        consumer.assign([partition])
        while consumer.position([partition])[0].offset < end:
            if (message := consumer.poll(1)) is not None:  # one without a value is false
                heads = [value or b"" for _, value in message.headers() or []]
                size = len(message.key() or b"") + len(message.value() or b"") + sum(map(len, heads))
                closing = not any(b'"kind":"event"' in head for head in heads)
                sizes["bytes"] += size
                sizes["closing_records"] += closing
                sizes["closing_bytes"] += size * closing
    consumer.close()
    return sizes


def _envelope(name: str, n: int, note: str) -> bytes:
    head = {"id": f"{name}-{n}", "timestamp": "2026-11-21T08:00:00Z", "version": "1"}
    return json.dumps({"metadata": head, "event_name": name, "payload": {"n": n, "note": note}}).encode()


def _packet(n: int) -> bytes:
    destination = {"type": "postgres", "vanity": "onramp", "schema": "public", "table": f"absent_{n}"}
    return json.dumps({"pipeline_context": {"destinations": [destination]}, "data": {"n": n}}).encode()


Case = Callable[[Bench, argparse.Namespace], dict[str, Any]]
CASES: Final[dict[str, Case]] = {"large": large, "outage": outage, "names": names}


def run(case: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run one case on a separate stack, and return its figures."""
    with tempfile.TemporaryDirectory() as name, parts(Path(name)) as (kafka, postgres):
        settings = {"batch_bytes": str(args.batch_bytes)} if args.batch_bytes else {}
        if case == "outage":
            own: dict[str, Any] = {"type": "postgres"}
            types = {"bench_0": {"destinations": [own, own | {"vanity": "away"}]}}
            settings |= {"databases": json.dumps({"away": _NOWHERE})}
            settings |= OwnRegistry(kafka.bootstrap, {"event_types": types}).env
        bench = Bench(kafka, postgres, Path(name), **settings)
        try:
            return {"case": case, "batch_bytes": args.batch_bytes} | CASES[case](bench, args)
        finally:
            bench.service.stop()
            bench.conn.close()


def main() -> None:
    """Run and print JSON; ``--keep`` makes it the committed result of its name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--events", type=int, default=20_000, help="large: how many")
    parser.add_argument("--bytes", type=int, default=100_000, help="large: of each")
    parser.add_argument("--batch-bytes", type=int, default=0, help="instead of the writer's own bound")
    parser.add_argument("--topics", type=int, default=100, help="outage: how many")
    parser.add_argument("--seconds", type=float, default=60.0, help="outage: how long")
    parser.add_argument("--names", type=int, default=10_000, help="names: how many")
    parser.add_argument("--singles", type=int, default=30, help="names: single events before and after")
    parser.add_argument("--keep", default="", metavar="NAME", help="keep it as growth-NAME.json")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    result = run(args.case, args) | {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average_before": round(load, 2),
        "load_average_after": round(os.getloadavg()[0], 2),
        "machine": machine(),
        "versions": versions(),
        "command": "python -m loadtest.bench_growth " + " ".join(sys.argv[1:]),
    }
    figures = json.dumps(result, indent=1) + "\n"
    print(figures)
    if args.keep:
        (RESULTS / f"growth-{args.keep}.json").write_text(figures, "utf-8")
        growth_page.write()


if __name__ == "__main__":
    main()
