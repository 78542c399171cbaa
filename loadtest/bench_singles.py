"""Measures the gateway's cost of a single event at a steady rate, for settings (or trees) in turn.

``python -m loadtest.bench_singles --variant LINGER_MS=0 --variant LINGER_MS=5``: the gateways of all
variants are up at once on the same Kafka and every round loads each in turn, so that what the machine
does meanwhile is in all of them: on a busy one many short rounds and their ratios say most.  The
forms of a variant are in gateways.py.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from loadtest import report
from loadtest.figures import middle_of
from loadtest.gateways import KEY, Variant, running
from loadtest.processes import cost
from stack.kafka import Kafka

_WARM_SECONDS: Final = 3.0
_ROOT: Final = Path(__file__).resolve().parent.parent
_REQUESTS: Final = "onramp_ingest_kafka_requests_total"
_NEVER: Final = 1e9


@dataclass(frozen=True)
class Case:
    """A variant of the gateway and a number of event names."""

    variant: str
    names: int


def main() -> None:
    """Run all and print a table; ``--out`` stores the figures."""
    parser = argparse.ArgumentParser("python -m loadtest.bench_singles", description=__doc__)
    parser.add_argument(
        "--variant", action="append", default=[], help="LINGER_MS=5,COMPRESSION=lz4, TLS, or /tree"
    )
    parser.add_argument("--names", type=int, nargs="+", default=[1, 40])
    parser.add_argument("--rate", type=float, default=1000.0, help="events a second, open loop")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    cases = [Case(variant, names) for names in args.names for variant in args.variant or [""]]
    rows: dict[Case, list[dict[str, float]]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory(prefix="onramp-bench-") as folder:
        kafka = Kafka(Path(folder) / "kafka")
        try:
            kafka.start()
            kafka.wait_ready()
            with running(args.variant or [""], kafka, Path(folder)) as gateways:
                for case in cases:
                    _load(gateways[case.variant], case.names, _WARM_SECONDS, Path(folder), args)
                for _ in range(args.rounds):
                    for case in cases:
                        rows[case].append(_run(case, gateways[case.variant], Path(folder), args))
        finally:
            kafka.stop()
    _print(rows, args)
    if args.out:
        results = [{"variant": case.variant, "names": case.names, "rounds": of} for case, of in rows.items()]
        command = " ".join(["python -m loadtest.bench_singles", *sys.argv[1:]])
        figures = {"command": command, "machine": report.machine(), "cases": results}
        args.out.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


def _run(case: Case, gateway: Variant, folder: Path, args: argparse.Namespace) -> dict[str, float]:
    before, requests = cost(gateway.pid), _produced(gateway)
    lines = _load(gateway, case.names, args.seconds, folder, args)
    after = cost(gateway.pid)
    made = _produced(gateway) - requests
    waits = sorted(1000 * (answered - due) for due, answered, _, *receipt in lines if receipt)
    if len(waits) < len(lines):
        sys.exit(f"{case}: {len(lines) - len(waits)} of {len(lines)} events were not accepted")
    return {
        "us_per_event": 1e6 * (sum(after.cpu.values()) - sum(before.cpu.values())) / len(lines),
        "requests_per_s": made / args.seconds,
        "p50_ms": waits[len(waits) // 2],
        "p99_ms": waits[int(len(waits) * 0.99)],
    }


def _load(
    gateway: Variant, names: int, seconds: float, folder: Path, args: argparse.Namespace
) -> list[list[Any]]:
    order, out = folder / "order.json", folder / "sent.json"
    settings = {
        "port": gateway.port,
        "api_key": KEY,
        "rate": args.rate,
        "seconds": seconds,
        "names": names,
        "fresh_every_s": _NEVER,
        "connections": args.connections,
        "ca_file": str(gateway.ca_file) if gateway.ca_file else None,
        "out": str(out),
    }
    order.write_text(json.dumps(settings), "utf-8")
    subprocess.run([sys.executable, "-m", "loadtest.open_loop", str(order)], cwd=_ROOT, check=True)
    lines: list[list[Any]] = orjson.loads(out.read_bytes())
    return lines


def _produced(gateway: Variant) -> float:
    """Return the produce requests so far; NaN for a tree that does not count them."""
    with urllib.request.urlopen(f"{gateway.service.url}/metrics", timeout=10) as answer:  # noqa: S310 - ours
        lines = answer.read().decode().splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith(_REQUESTS)), float("nan"))


def _print(rows: dict[Case, list[dict[str, float]]], args: argparse.Namespace) -> None:
    print(f"{report.machine()}; load average {os.getloadavg()[0]:.1f} at the end")
    print(f"{args.rate:g} events/s, {args.connections} connections, {args.rounds} rounds\n")
    print("| names | variant | µs CPU/event | of the first | produce requests/s | p50 ms | p99 ms |")
    print("|-|-|-|-|-|-|-|")
    for case, of in rows.items():
        cells = [middle_of([row[key] for row in of]) for key in of[0]]
        first = next(each for name, each in rows.items() if name.names == case.names)
        ratios = [row["us_per_event"] / its["us_per_event"] for row, its in zip(of, first, strict=True)]
        cells.insert(1, middle_of(ratios))
        print(f"| {case.names} | {case.variant or 'as set'} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
