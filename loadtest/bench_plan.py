"""`make bench-plan`: events per second of `onramp plan`, and its delay of live events.

`alone`: a change of one type, tried on real flights; each round is a process of its own, from its start (JVM
and Spark session included) to its end, with the rate that it reports, from when Kafka is read.
`live`: single events in an open loop, from when each was due to its row, in turn alone and with
plans that follow one another.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg2
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from loadtest import bench_latency, registry_page
from loadtest.pages import RESULTS
from loadtest.report import machine, versions
from loadtest.target import Target, admin, embedded, way_to
from services.cli.exits import Exit
from shared import wire
from stack import flights
from stack.flights import EVENT_NAME, TOTAL

_TOPIC: Final = f"events.{EVENT_NAME}"
_PARTITIONS: Final = 2
_OF_THE_GATEWAY: Final = [(wire.HEADER_CONTEXT, wire.CONTEXT_BYTES)]
_SETTLED: Final = "SELECT coalesce(sum(next_offset), 0) FROM onramp.ledger WHERE topic = %s"
_PATIENCE_SECONDS: Final = 600.0
_POLL_SECONDS: Final = 0.2
#: Every flight keeps it, so the plan tries what applies would do and finds no fault.
_SCHEMA: Final = {
    "type": "object",
    "required": ["carrier", "flight", "origin", "dest"],
    "properties": {
        **{name: {"type": "integer"} for name in ("year", "month", "day", "flight", "distance")},
        "carrier": {"type": "string", "minLength": 2},
        "time_hour": {"type": "string", "format": "date-time"},
    },
}


def history(target: Target, events: int) -> None:
    """Send `events` flights to Kafka, and wait until the writer has settled them."""
    kafka = admin(target.bootstrap)  # held: its requests end with it
    kafka.create_topics([NewTopic(_TOPIC, _PARTITIONS)])[_TOPIC].result(30)
    producer = Producer(
        {**way_to(target.bootstrap), "linger.ms": 20, "queue.buffering.max.messages": 100_000}
    )
    sent = 0
    while sent < events:
        for envelope in flights.envelopes(min(TOTAL, events - sent)):
            envelope["metadata"]["id"] += f"-{sent // TOTAL}"
            while True:
                try:
                    producer.produce(
                        _TOPIC, json.dumps(envelope), partition=sent % _PARTITIONS, headers=_OF_THE_GATEWAY
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            sent += 1
            producer.poll(0)
    producer.flush()
    until = time.monotonic() + _PATIENCE_SECONDS
    with psycopg2.connect(target.dsn) as conn, conn.cursor() as cursor:
        conn.autocommit = True
        while time.monotonic() < until:
            cursor.execute(_SETTLED, (_TOPIC,))
            if cursor.fetchone() == (events,):
                return
            time.sleep(_POLL_SECONDS)
    sys.exit(f"the writer has not settled {events:,} flights within {_PATIENCE_SECONDS:.0f} s")


def plan(target: Target, file: Path, events: int) -> dict[str, Any]:
    """Run the plan once; return its result, and `process_seconds`."""
    command = [sys.executable, "-m", "services.cli", "plan", str(file), "--last", str(events), "--json"]
    command += ["--kafka", target.bootstrap, "--dsn", target.dsn, "--event", EVENT_NAME]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    took = time.perf_counter() - began
    if done.returncode != Exit.OK:
        sys.exit(f"plan exits with {done.returncode}: {(done.stdout + done.stderr).decode()[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    if found["read"] != events:
        sys.exit(f"plan read {found['read']:,} of {events:,} events")
    return {**found, "process_seconds": took}


def alone(target: Target, file: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Run the plan several times; return events per second."""
    found = [plan(target, file, args.events) for _ in range(args.rounds)]
    return {
        "events": args.events,
        "events_per_s": _range([each["events_per_second"] for each in found]),
        "events_per_s_of_the_whole_process": _range([args.events / f["process_seconds"] for f in found]),
    }


def live(target: Target, file: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Send live events without and during plans, in turn; return ms from due time to row."""
    wanted = argparse.Namespace(rate=args.rate, seconds=args.seconds, names=40, fresh_every=10 * args.seconds)
    p99: dict[str, list[float]] = {"without": [], "beside": []}
    plans = 0
    bench_latency.measure(target, wanted)  # tables and topics are made
    for number in range(args.rounds):
        for name in sorted(p99, reverse=number % 2 == 0):
            ended = threading.Event()
            done: list[int] = []

            def follow(ended: threading.Event = ended, done: list[int] = done) -> None:
                while not ended.is_set():
                    plan(target, file, args.events)
                    done.append(1)

            running = threading.Thread(target=follow) if name == "beside" else None
            if running:
                running.start()
            try:
                measured = bench_latency.measure(target, wanted)
            finally:
                ended.set()
                if running:
                    running.join()
            if measured["refused"] or measured["rows_not_seen"]:
                sys.exit("events were refused or their rows were not seen: the figures are not sound")
            p99[name].append(measured["warm_request_to_row_ms"]["p99"])
            plans += len(done)
    ratios = [beside / without for beside, without in zip(p99["beside"], p99["without"], strict=True)]
    return {
        "live_events_per_s": args.rate,
        "plans": plans,
        "live_p99_ms_without": _range(p99["without"]),
        "live_p99_ms_beside": _range(p99["beside"]),
        "beside_to_without": _range(ratios, 2),
        "beside_to_without_median": round(statistics.median(ratios), 2),
    }


def _range(values: list[float], digits: int = 0) -> list[float]:
    """Return the lowest and the highest."""
    return [round(each, digits) for each in (min(values), max(values))]


def main() -> None:
    """Run both parts and print JSON; `--keep` makes it the committed result."""
    parser = argparse.ArgumentParser(
        "python -m loadtest.bench_plan",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--events", type=int, default=1_000_000, help="of history")
    parser.add_argument("--rate", type=float, default=1_000.0, help="live events a second")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each live load; a third warms up")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="keep the result, and make the page of it")
    args = parser.parse_args()
    before = os.getloadavg()[0]
    with embedded(1) as target, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "changed.yaml"
        file.write_text(yaml.safe_dump({"event_types": {EVENT_NAME: {"schema": _SCHEMA}}}), "utf-8")
        history(target, args.events)
        found = alone(target, file, args) | live(target, file, args)
    result = {
        "case": "plan",
        **found,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average_before": round(before, 2),
        "load_average_after": round(os.getloadavg()[0], 2),
        "machine": machine(),
        "versions": versions(),
        "command": " ".join(["python -m loadtest.bench_plan", *sys.argv[1:]]),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if args.keep:
        (RESULTS / "registry-plan.json").write_text(text + "\n", "utf-8")
        registry_page.write()


if __name__ == "__main__":
    main()
