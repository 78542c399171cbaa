"""`make bench-gateway`: the gateway beside a bare aiokafka producer, in one run on one machine.

CPU per event over the gateway's whole process tree, with the whole validation on and every
event answered after Kafka's acknowledgement.  Ranges over rounds, not bests.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from loadtest.events import EVENT_BYTES
from loadtest.processes import cost
from stack import services
from stack.kafka import Kafka
from stack.services import Service

_WARM_SECONDS = 2.0
_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Scenario:
    """One row of the table."""

    title: str
    form: str
    batch: int
    connections: int


SCENARIOS = (
    Scenario("single, 64 connections", "single", 1, 64),
    Scenario("single, 512 connections", "single", 1, 512),
    Scenario("batches of 500", "array", 500, 8),
    Scenario("NDJSON gzip, 500 a request", "ndjson-gzip", 500, 8),
)


@dataclass(frozen=True)
class Row:
    """One round of one scenario: CPU in µs per event, throughput, latency, memory."""

    cpu: float
    per_second: float
    p50: float
    p99: float
    pss: float
    bare: float


def main() -> None:
    """Run every scenario some rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the figures there as JSON too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="onramp-bench-") as folder:
        kafka = Kafka(Path(folder) / "kafka")
        try:
            kafka.start()
            kafka.wait_ready()
            rounds = [_round(kafka, Path(folder), args) for _ in range(args.rounds)]
        finally:
            kafka.stop()
    _print(rounds, args)
    if args.out:
        by_scenario = {
            scenario.title: [asdict(row) for row in rows]
            for scenario, rows in zip(SCENARIOS, zip(*rounds, strict=True), strict=True)
        }
        args.out.write_text(json.dumps({"scenarios": by_scenario}, indent=1) + "\n", "utf-8")


def _round(kafka: Kafka, folder: Path, args: argparse.Namespace) -> list[Row]:
    env = {"ONRAMP_INGEST_WORKERS": str(args.workers)}
    gateway = services.gateway(bootstrap=kafka.bootstrap, log=folder / "gateway.log", env=env)
    try:
        gateway.start()
        gateway.wait_ready()
        return [_measure(gateway, kafka, each, args.seconds) for each in SCENARIOS]
    finally:
        gateway.stop()


def _measure(gateway: Service, kafka: Kafka, scenario: Scenario, seconds: float) -> Row:
    load = ["http_load", str(gateway.port), scenario.form, str(scenario.batch), str(scenario.connections)]
    _run(*load, str(_WARM_SECONDS), "bench")
    before = cost(gateway.pid)
    result = _run(*load, str(seconds), "bench")
    after = cost(gateway.pid)
    if result["other"]:
        sys.exit(f"{scenario.title}: {result['other']} requests were not answered with 202")
    spent = sum(after.cpu.values()) - sum(before.cpu.values())
    bare = _run(
        "bare_producer",
        kafka.bootstrap,
        "events.bench",
        str(scenario.batch),
        str(scenario.connections),
        str(seconds),
    )
    return Row(
        cpu=1e6 * spent / result["events"],
        per_second=result["events"] / seconds,
        p50=result["p50_ms"],
        p99=result["p99_ms"],
        pss=sum(after.pss.values()),
        bare=1e6 * bare["cpu"] / bare["events"],
    )


def _run(module: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", f"loadtest.{module}", *arguments]
    done = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _print(rounds: list[list[Row]], args: argparse.Namespace) -> None:
    cores, memory = psutil.cpu_count(), psutil.virtual_memory().total / 2**30
    print(f"{platform.platform()}, {cores} cores, {memory:.0f} GiB, Python {platform.python_version()}")
    print(f"{EVENT_BYTES} B events, {args.rounds} rounds of {args.seconds:g} s, {args.workers} worker(s)\n")
    print("| | gateway µs CPU/event | bare producer | ratio | events/s | p50 ms | p99 ms | PSS MiB |")
    print("|-|-|-|-|-|-|-|-|")
    for scenario, rows in zip(SCENARIOS, zip(*rounds, strict=True), strict=True):
        cells = [
            _range([row.cpu for row in rows], 1),
            _range([row.bare for row in rows], 1),
            _range([row.cpu / row.bare for row in rows], 1),
            _range([row.per_second for row in rows], 0),
            _range([row.p50 for row in rows], 1),
            _range([row.p99 for row in rows], 1),
            _range([row.pss for row in rows], 0),
        ]
        print(f"| {scenario.title} | {' | '.join(cells)} |")


def _range(values: list[float], digits: int) -> str:
    low, high = f"{min(values):,.{digits}f}", f"{max(values):,.{digits}f}"
    return low if low == high else f"{low} to {high}"


if __name__ == "__main__":
    main()
