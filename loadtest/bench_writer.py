"""``make bench-writer``: Kafka to Postgres, compared with Postgres' own COPY of the same rows.

A backlog is produced first (`--case`, see writer_cases.py), then the writer starts on it.
The warm window is fixed beforehand: from the first fifth of the rows to the last row; cold
start and the whole run are printed too.  The limit is COPY of the landed rows into an empty
table of the same shape with its primary key, afterwards, in one session, on the same server.
"""

import argparse
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil
import psycopg2
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg2.extensions import connection

from loadtest import writer_page
from loadtest.background import repeatedly
from loadtest.pages import RESULTS
from loadtest.processes import cost, cpu_of
from loadtest.report import machine, versions
from loadtest.writer_cases import CASES, Case
from shared import wire
from stack.kafka import Kafka
from stack.postgres import Postgres
from stack.services import Service, admin, writer

POLL_SECONDS = 0.05
MEMORY_SECONDS = 2.0


def produce(bootstrap: str, case: Case, events: int, partitions: int) -> float:
    """Fill the topics; return the average bytes of a record's value."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(wire.topic_of(name), partitions, 1) for name in case.names]
    for made in admin.create_topics(topics).values():
        made.result()
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 500_000}
    )
    headers = [
        (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES),
        (wire.HEADER_RECEIVED_AT, b"2026-11-21T08:00:00.123456Z"),
        (wire.HEADER_PRODUCER, b"bench"),
    ]
    size = 0
    for topic, key, value, partition in case.messages(events):
        size += len(value)
        options = {} if partition is None else {"partition": partition}
        while True:
            try:
                producer.produce(topic, value, key, headers=headers, **options)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    return size / events


def settled(conn: connection) -> int:
    """Return rows that are settled, by the ledger: a count of the table would disturb it."""
    with conn.cursor() as cursor:
        cursor.execute("SELECT to_regclass('onramp.ledger') IS NOT NULL")
        if not (cursor.fetchone() or [False])[0]:
            return 0
        cursor.execute(
            "SELECT coalesce(sum(next_offset), 0) FROM onramp.ledger WHERE topic LIKE 'events.bench%'"
        )
        return int((cursor.fetchone() or [0])[0])


class Spent:
    """CPU seconds so far by kind of process: the writer's, Postgres' and Kafka's apart."""

    def __init__(self, service: Service, postgres: Postgres, kafka: Kafka) -> None:
        self._heads = lambda: (psutil.Process(service.pid), psutil.Process(postgres.pid))
        self._kafka = psutil.Process(kafka.pid)

    def now(self) -> dict[str, float]:
        """Return the CPU seconds so far; ended children count if their parent waited."""
        seconds = Counter({"kafka": sum(cpu_of(self._kafka).values())})
        for head in self._heads():
            seconds.update(cpu_of(head))
        return dict(seconds)


def run_writer(
    service: Service, conn: connection, events: int, spent: Spent
) -> tuple[list[tuple[float, int]], dict[str, float]]:
    """Return seconds since the start and rows settled, at every change; the CPU of the warm window."""
    began, line = time.perf_counter(), [(0.0, 0)]
    service.start()
    cold: dict[str, float] = {}
    while line[-1][1] < events:
        service.check()
        now = settled(conn)
        if now != line[-1][1]:
            line.append((time.perf_counter() - began, now))
        if not cold and now >= events * writer_page.WARM_FROM:
            cold = spent.now()
        time.sleep(POLL_SECONDS)
    return line, {kind: round(cpu - cold.get(kind, 0.0), 1) for kind, cpu in spent.now().items()}


def copy_rates(conn: connection, table: str, repeats: int) -> list[float]:
    """Return rows a second of COPY of the same rows into the same shape, each time into an empty table."""
    rows, rates = io.BytesIO(), []
    with conn.cursor() as cursor:
        cursor.copy_expert(f"COPY {table} TO STDOUT (FORMAT binary)", rows)
        for _ in range(repeats):
            cursor.execute(f"CREATE TABLE public.copied (LIKE {table} INCLUDING ALL)")
            rows.seek(0)
            began = time.perf_counter()
            cursor.copy_expert("COPY public.copied FROM STDIN (FORMAT binary)", rows, 1 << 20)
            rates.append(cursor.rowcount / (time.perf_counter() - began))
            cursor.execute("DROP TABLE public.copied")
    return rates


@contextmanager
def parts(folder: Path) -> Iterator[tuple[Kafka, Postgres]]:
    """A separate Kafka and Postgres with their default durability (fsync on)."""
    kafka, postgres = Kafka(folder / "kafka"), Postgres(folder / "postgres")
    try:
        kafka.start()
        postgres.start()
        kafka.wait_ready()
        postgres.wait_ready()
        yield kafka, postgres
    finally:
        postgres.stop()
        kafka.stop()


def measure(args: argparse.Namespace) -> dict[str, object]:
    """Run once (produce, land, compare) and return the figures."""
    with tempfile.TemporaryDirectory() as name, parts(Path(name)) as (kafka, postgres):
        case = CASES[args.case]
        size = produce(kafka.bootstrap, case, args.events, args.partitions)
        conn = psycopg2.connect(postgres.dsn)
        conn.autocommit = True
        if case.ddl:
            with conn.cursor() as cursor:
                cursor.execute(case.ddl)
        env = case.registry(kafka.bootstrap) | {"ONRAMP_WRITER_MASTER": f"local[{args.slots}]"}
        service = writer(bootstrap=kafka.bootstrap, dsn=postgres.dsn, log=Path(name) / "writer.log", env=env)
        before = cost(postgres.pid)
        keeps = _admin_beside(kafka, postgres, Path(name)) if args.admin else nullcontext()
        try:
            memory = Memory(service)
            with keeps, repeatedly(MEMORY_SECONDS, memory.sample):
                line, warm = run_writer(service, conn, args.events, Spent(service, postgres, kafka))
            after = cost(service.pid, postgres.pid)
        finally:
            service.stop()
        counted = outcomes(conn)
        copies = copy_rates(conn, case.table, args.repeats)
        return report(
            args,
            size,
            line,
            copies,
            {
                "outcomes": counted,
                "cpu_s": after.since(before),
                "warm_cpu_s": warm,
                "most_pss_mib": round(sum(memory.peak.values()), 1),
                "pss_mib_then": memory.peak,
            },
        )


@contextmanager
def _admin_beside(kafka: Kafka, postgres: Postgres, folder: Path) -> Iterator[None]:
    """An admin service that stores the writer's parked events."""
    env = {"ONRAMP_ADMIN_STORE": str(folder / "segments")}
    service = admin(bootstrap=kafka.bootstrap, dsn=postgres.dsn, log=folder / "admin.log", env=env)
    service.start()
    try:
        yield
    finally:
        service.stop()


class Memory:
    """The maximum memory (PSS, MiB) of the writer, its JVM and its workers together."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.peak: dict[str, float] = {}

    def sample(self) -> None:
        """Take a reading now."""
        with suppress(psutil.Error):  # a worker that ends during the poll
            self.peak = max(self.peak, cost(self._service.pid).pss, key=lambda pss: sum(pss.values()))


def outcomes(conn: connection) -> dict[str, int]:
    """Return the outcomes of the events by the totals; other settled offsets have no table."""
    with conn.cursor() as cursor:
        cursor.execute("SELECT outcome, sum(events)::bigint FROM onramp.totals GROUP BY 1 ORDER BY 1")
        counted = dict(cursor.fetchall())
        cursor.execute("SELECT sum(next_offset)::bigint FROM onramp.ledger")
        ((settled,),) = cursor.fetchall()
    rest = settled - sum(counted.values())
    return counted | {"parked without a table": rest} if rest else counted


def report(
    args: argparse.Namespace,
    size: float,
    line: list[tuple[float, int]],
    copies: list[float],
    costs: dict[str, object],
) -> dict[str, object]:
    """Return the figures of a run."""
    end, events = line[-1]
    first = line[1][0]
    warm_at, warm_rows = next((t, n) for t, n in line if n >= events * writer_page.WARM_FROM)
    warm = (events - warm_rows) / (end - warm_at) if end > warm_at else float("nan")
    limit = statistics.median(copies)
    return {
        "case": args.case,
        "events": events,
        "value_bytes": round(size, 1),
        "partitions": args.partitions,
        "slots": args.slots,
        "cold_start_s": round(first, 1),
        "whole_rows_per_s": round(events / end),
        "after_first_rows_per_s": round((events - line[1][1]) / (end - first)) if end > first else None,
        "warm_rows_per_s": round(warm),
        "copy_rows_per_s": [round(rate) for rate in copies],
        "warm_to_copy": round(warm / limit, 3),
        **costs,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average_before": round(args.load_average, 2),
        "machine": machine(),
        "versions": versions(),
        "command": "python -m loadtest.bench_writer " + " ".join(sys.argv[1:]),
    }


def main() -> None:
    """Run and print JSON; ``--out`` stores it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--case", choices=CASES, default="landing-250b")
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--slots", type=int, default=2, help="Spark's task slots: tasks, and so connections")
    parser.add_argument("--repeats", type=int, default=3, help="COPY runs")
    parser.add_argument("--admin", action="store_true", help="an admin service keeps what is parked")
    parser.add_argument("--out", type=Path, help="write the figures there instead of keeping them")
    args = parser.parse_args()
    args.load_average = os.getloadavg()[0]
    result = measure(args)
    figures = json.dumps(result, indent=1) + "\n"
    print(figures)
    if args.out:
        args.out.write_text(figures, "utf-8")
    elif args.events >= writer_page.MIN_EVENTS:
        (RESULTS / writer_page.name_of(result)).write_text(figures, "utf-8")
        writer_page.write()


if __name__ == "__main__":
    main()
