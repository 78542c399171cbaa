"""``make bench-writer``: Kafka to Postgres, beside Postgres' own COPY of the same rows.

A backlog is produced first, then the writer starts on it.  The warm window is fixed
beforehand: from the first fifth of the rows to the last row; cold start and the whole run
are printed too.  The limit is COPY of the landed rows into an empty table of the same
shape with its primary key, before and after, in one session, on the same server.
"""

import argparse
import io
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg2.extensions import connection

from loadtest.processes import cost
from shared import wire
from stack.kafka import Kafka
from stack.postgres import Postgres
from stack.services import Service, writer

NAME = "bench"
POLL_SECONDS = 0.05
WARM_FROM = 0.2
_HEAD = (
    '{{"metadata":{{"id":"{id}","timestamp":"2026-11-21T08:00:00Z","version":"1"}},'
    '"event_name":"bench","payload":'
)


def envelope(number: int, size: int) -> bytes:
    """An envelope of `size` bytes in all (or as few as an envelope needs)."""
    start = (
        _HEAD.format(id=f"event-{number:08d}") + f'{{"order":{number},"amount":{number % 10000}.25,"note":"'
    )
    return (start + "x" * max(size - len(start) - 3, 0) + '"}}').encode()


def produce(bootstrap: str, events: int, size: int, partitions: int) -> int:
    """Fill the topic; returns the bytes of one event."""
    topic = wire.topic_of(NAME)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        made.result()
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 500_000}
    )
    headers = [
        (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES),
        (wire.HEADER_RECEIVED_AT, b"2026-11-21T08:00:00.123456Z"),
    ]
    for number in range(events):
        while True:
            try:
                producer.produce(topic, envelope(number, size), f"event-{number:08d}", headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    return len(envelope(0, size))


def settled(conn: connection) -> int:
    """Rows that are settled, by the ledger: a count of the table would disturb it."""
    with conn.cursor() as cursor:
        cursor.execute("SELECT to_regclass('onramp.ledger') IS NOT NULL")
        if not (cursor.fetchone() or [False])[0]:
            return 0
        cursor.execute("SELECT coalesce(sum(next_offset), 0) FROM onramp.ledger WHERE topic = 'events.bench'")
        return int((cursor.fetchone() or [0])[0])


def run_writer(service: Service, conn: connection, events: int) -> list[tuple[float, int]]:
    """Seconds since the start and rows settled, at every change."""
    began, line = time.perf_counter(), [(0.0, 0)]
    service.start()
    while line[-1][1] < events:
        service.check()
        now = settled(conn)
        if now != line[-1][1]:
            line.append((time.perf_counter() - began, now))
        time.sleep(POLL_SECONDS)
    return line


def copy_seconds(conn: connection, repeats: int) -> list[float]:
    """How long COPY of the same rows into the same shape takes, each time into an empty table."""
    rows, times = io.BytesIO(), []
    with conn.cursor() as cursor:
        cursor.copy_expert(
            "COPY (SELECT * FROM events.bench ORDER BY _partition, _offset) TO STDOUT (FORMAT binary)", rows
        )
        for _ in range(repeats):
            cursor.execute("CREATE TABLE events.copied (LIKE events.bench INCLUDING ALL)")
            rows.seek(0)
            began = time.perf_counter()
            cursor.copy_expert("COPY events.copied FROM STDIN (FORMAT binary)", rows, 1 << 20)
            times.append(time.perf_counter() - began)
            cursor.execute("DROP TABLE events.copied")
    return times


@contextmanager
def parts(folder: Path) -> Iterator[tuple[Kafka, Postgres]]:
    """Kafka and Postgres of their own, durable as they come (fsync on)."""
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
    """One run: produce, land, compare."""
    with tempfile.TemporaryDirectory() as name, parts(Path(name)) as (kafka, postgres):
        size = produce(kafka.bootstrap, args.events, args.size, args.partitions)
        conn = psycopg2.connect(postgres.dsn)
        conn.autocommit = True
        service = writer(bootstrap=kafka.bootstrap, dsn=postgres.dsn, log=Path(name) / "writer.log")
        before = cost(postgres.pid)
        try:
            line = run_writer(service, conn, args.events)
            after = cost(service.pid, postgres.pid)
        finally:
            service.stop()
        copies = copy_seconds(conn, args.repeats)
        return report(args, size, line, copies, {"cpu_s": after.since(before), "pss_mib": after.pss})


def report(
    args: argparse.Namespace,
    size: int,
    line: list[tuple[float, int]],
    copies: list[float],
    costs: dict[str, object],
) -> dict[str, object]:
    """The figures of a run."""
    end, events = line[-1]
    first = line[1][0]
    warm_at, warm_rows = next((t, n) for t, n in line if n >= events * WARM_FROM)
    warm = (events - warm_rows) / (end - warm_at) if end > warm_at else float("nan")
    limit = events / statistics.median(copies)
    return {
        "events": events,
        "event_bytes": size,
        "partitions": args.partitions,
        "cold_start_s": round(first, 1),
        "whole_rows_per_s": round(events / end),
        "after_first_rows_per_s": round((events - line[1][1]) / (end - first)) if end > first else None,
        "warm_rows_per_s": round(warm),
        "copy_rows_per_s": [round(events / c) for c in copies],
        "warm_to_copy": round(warm / limit, 3),
        **costs,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "command": "python -m loadtest.bench_writer " + " ".join(sys.argv[1:]),
    }


def main() -> None:
    """Run and print JSON; ``--out`` keeps it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--size", type=int, default=250, help="bytes of one event in all")
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3, help="COPY runs")
    parser.add_argument("--out", type=Path, help="write the figures there too")
    args = parser.parse_args()
    figures = json.dumps(measure(args), indent=2)
    print(figures)
    if args.out:
        args.out.write_text(figures + "\n")


if __name__ == "__main__":
    main()
