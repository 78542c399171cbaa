"""`make bench-gateway`: the gateway compared with a bare aiokafka producer, in one run on one machine.

CPU per event over the gateway's whole process tree, with the whole validation on and every
event answered after Kafka's acknowledgement.  Ranges over rounds, not bests.  With ``--variant``
gateways that differ are loaded in turn, round by round: ``--variant= --variant TLS`` is what HTTPS
costs (gateways.py says what a variant can be).
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from loadtest import report
from loadtest.events import EVENT_BYTES
from loadtest.gateways import KEY, Variant, running
from loadtest.processes import cost
from stack.kafka import Kafka

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


@dataclass(frozen=True)
class Case:
    """A scenario and a variant of the gateway."""

    scenario: Scenario
    variant: str

    @property
    def title(self) -> str:
        """Return the name of its row."""
        return f"{self.scenario.title}, {self.variant}" if self.variant else self.scenario.title


def main() -> None:
    """Run every scenario some rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--variant", action="append", default=[], help="LINGER_MS=5,COMPRESSION=lz4, or TLS")
    parser.add_argument("--only", default="", help="scenarios whose title has this text")
    parser.add_argument("--out", type=Path, help="write the figures there as JSON too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="onramp-bench-") as folder:
        kafka = Kafka(Path(folder) / "kafka")
        try:
            kafka.start()
            kafka.wait_ready()
            rounds = _rounds(kafka, Path(folder), args)
        finally:
            kafka.stop()
    _print(rounds, args)
    if args.out:
        by_title = {case.title: [asdict(each[case]) for each in rounds] for case in rounds[0]}
        command = " ".join(["python -m loadtest.bench_gateway", *sys.argv[1:]])
        figures = {"command": command, "machine": report.machine(), "scenarios": by_title}
        args.out.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


def _rounds(kafka: Kafka, folder: Path, args: argparse.Namespace) -> list[dict[Case, Row]]:
    variants = args.variant or [""]
    if args.workers > 1:  # a tree is started with its own settings
        own = f"WORKERS={args.workers}"
        variants = [
            each if each.startswith("/") else ",".join(filter(None, [each, own])) for each in variants
        ]
    with running(variants, kafka, folder) as gateways:
        return [_round(kafka, gateways, args) for _ in range(args.rounds)]


def _round(kafka: Kafka, gateways: dict[str, Variant], args: argparse.Namespace) -> dict[Case, Row]:
    rows = {}
    for scenario in (each for each in SCENARIOS if args.only in each.title):
        for gateway in gateways.values():
            load(gateway, scenario, _WARM_SECONDS)
        bare = _bare(kafka, scenario, args.seconds)
        for name, gateway in gateways.items():
            rows[Case(scenario, name)] = _measure(gateway, scenario, args.seconds, bare)
    return rows


def _bare(kafka: Kafka, scenario: Scenario, seconds: float) -> float:
    load = [kafka.bootstrap, "events.bench", str(scenario.batch), str(scenario.connections), str(seconds)]
    result = _run("bare_producer", *load)
    return float(1e6 * result["cpu"] / result["events"])


def _measure(gateway: Variant, scenario: Scenario, seconds: float, bare: float) -> Row:
    before = cost(gateway.pid)
    result = load(gateway, scenario, seconds)
    after = cost(gateway.pid)
    if result["other"]:
        sys.exit(f"{scenario.title}: {result['other']} requests were not answered with 202")
    spent = sum(after.cpu.values()) - sum(before.cpu.values())
    return Row(
        cpu=1e6 * spent / result["events"],
        per_second=result["events"] / seconds,
        p50=result["p50_ms"],
        p99=result["p99_ms"],
        pss=sum(after.pss.values()),
        bare=bare,
    )


def load(gateway: Variant, scenario: Scenario, seconds: float) -> dict[str, Any]:
    """Load a gateway from a separate process; return the number of accepted events, and the seconds."""
    load = [str(gateway.port), scenario.form, str(scenario.batch), str(scenario.connections), str(seconds)]
    return _run("http_load", *load, "bench", KEY, *([str(gateway.ca_file)] if gateway.ca_file else []))


def _run(module: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", f"loadtest.{module}", *arguments]
    done = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _print(rounds: list[dict[Case, Row]], args: argparse.Namespace) -> None:
    cores, memory = psutil.cpu_count(), psutil.virtual_memory().total / 2**30
    print(f"{platform.platform()}, {cores} cores, {memory:.0f} GiB, Python {platform.python_version()}")
    print(f"{EVENT_BYTES} B events, {args.rounds} rounds of {args.seconds:g} s, {args.workers} worker(s)")
    print(f"load average {os.getloadavg()[0]:.1f} at the end\n")
    print(
        "| | gateway µs CPU/event | of the first | bare producer | ratio | events/s | p50 ms | p99 ms "
        "| PSS MiB |"
    )
    print("|-|-|-|-|-|-|-|-|-|")
    for case in rounds[0]:
        rows = [each[case] for each in rounds]
        first = next(other for other in rounds[0] if other.scenario == case.scenario)
        cells = [
            _range([row.cpu for row in rows], 1),
            _range([each[case].cpu / each[first].cpu for each in rounds], 2),
            _range([row.bare for row in rows], 1),
            _range([row.cpu / row.bare for row in rows], 1),
            _range([row.per_second for row in rows], 0),
            _range([row.p50 for row in rows], 1),
            _range([row.p99 for row in rows], 1),
            _range([row.pss for row in rows], 0),
        ]
        print(f"| {case.title} | {' | '.join(cells)} |")


def _range(values: list[float], digits: int) -> str:
    low, high = f"{min(values):,.{digits}f}", f"{max(values):,.{digits}f}"
    return low if low == high else f"{low} to {high}"


if __name__ == "__main__":
    main()
