"""``make bench``: every bench in one report, with limits of the same run and the last committed one.

The gateway and a bare producer, the writer and Postgres' own COPY, the latency at a
steady rate, the seed shapes of the load, and a rising load on a cold stack.  Ranges over rounds, not bests.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from loadtest import report
from loadtest.figures import LESS, MORE, Change, Figure, compare, range_of
from loadtest.pages import RESULTS
from loadtest.shapes import RISING
from loadtest.target import ROOT

_FILE: Final = RESULTS / "bench.json"
_PAGE: Final = RESULTS / "bench.md"
_HEAD: Final = """\
# The benches, in one run

Made by `make bench`; do not edit it by hand. Each cell is the range over the rounds. *Ratio*
is the figure as a multiple of its limit in the same run: the machine is in both, so compare
ratios rather than figures.
"""


@dataclass(frozen=True, slots=True)
class Bench:
    """A bench as a command that writes JSON to `--out`, and the figures that it yields."""

    name: str
    module: str
    arguments: Callable[[argparse.Namespace], list[str]]
    figures: Callable[[list[Any]], Iterator[Figure]]
    rounds: Callable[[argparse.Namespace], int] = lambda _: 1


def gateway_figures(runs: list[Any]) -> Iterator[Figure]:
    """Yield the figures of bench_gateway, whose rounds are inside of one run."""
    for scenario, rows in runs[0]["scenarios"].items():

        def column(name: str, rows: list[dict[str, float]] = rows) -> list[float]:
            return [row[name] for row in rows]

        name = f"gateway, {scenario}"
        yield Figure(f"{name}: CPU", "µs/event", LESS, column("cpu"), column("bare"))
        yield Figure(f"{name}: rate", "events/s", MORE, column("per_second"))
        yield Figure(f"{name}: p99", "ms", LESS, column("p99"))
        yield Figure(f"{name}: PSS", "MiB", LESS, column("pss"))


def writer_figures(runs: list[Any]) -> Iterator[Figure]:
    """Yield the figures of bench_writer, which makes a run each round."""
    copies = [sorted(run["copy_rows_per_s"])[len(run["copy_rows_per_s"]) // 2] for run in runs]
    warm = [float(run["warm_rows_per_s"]) for run in runs]
    yield Figure("writer, warm: rate", "rows/s", MORE, warm, [float(copy) for copy in copies])
    yield Figure("writer, cold start", "s", LESS, [float(run["cold_start_s"]) for run in runs])


def latency_figures(runs: list[Any]) -> Iterator[Figure]:
    """Yield the figures of bench_latency: cold, warm, and the first event of a new name, apart."""
    for key, label in {
        "warm_request_ms": "request, warm",
        "warm_request_to_row_ms": "request to row, warm",
        "new_name_request_to_row_ms": "request to row, a new name's first",
        "cold_request_to_row_ms": "request to row, cold",
    }.items():
        for percentile in ("p50", "p99"):
            values = [run[key][percentile] for run in runs if run[key]]
            if values:
                yield Figure(f"latency, {label}: {percentile}", "ms", LESS, values)


def load_figures(runs: list[Any]) -> Iterator[Figure]:
    """Yield the figures of the load; the offered rate is the limit of the rate of rows."""
    for run in runs:
        name = f"load, {run['shape']}"
        rate, offered = run.get("end_to_end_per_minute"), float(run["offered_per_minute"])
        if rate:
            yield Figure(f"{name}: end to end", "packets/min", MORE, [float(rate)], [offered])
        for key, label in (("request_ms", "request p99"), ("request_to_row_ms", "request to row p99")):
            if run[key]:
                yield Figure(f"{name}: {label}", "ms", LESS, [run[key]["p99"]])
        if still := run.get("stand_still"):
            yield Figure(f"{name}: longest stand-still of rows", "s", LESS, [still["due_s"]])
        cpu = sum(cost["us_per_packet"] for cost in run["processes"].values())
        yield Figure(f"{name}: CPU of all", "µs/packet", LESS, [round(cpu, 1)])


BENCHES: Final = (
    Bench(
        "gateway",
        "loadtest.bench_gateway",
        lambda given: ["--rounds", str(given.rounds)],
        gateway_figures,
    ),
    Bench(
        "writer",
        "loadtest.bench_writer",
        lambda given: ["--events", str(given.events)],
        writer_figures,
        lambda given: given.rounds,
    ),
    Bench(
        "latency",
        "loadtest.bench_latency",
        lambda given: ["--seconds", str(given.latency_seconds)],
        latency_figures,
    ),
)


def main() -> None:
    """Run the benches, write the report, and print figures that got slower."""
    parser = argparse.ArgumentParser("python -m loadtest.bench", description=__doc__)
    names = [bench.name for bench in BENCHES] + ["load"]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=1_000_000, help="of a round of the writer's bench")
    parser.add_argument("--latency-seconds", type=float, default=120.0, help="of the latency bench")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each shape of the load")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of bench.json and bench.md")
    args = parser.parse_args()
    before = _committed()
    figures, failed = _run(args)
    results = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"python -m loadtest.bench {' '.join(sys.argv[1:])}".strip(),
        "machine": report.machine(),
        "load_average_before": round(os.getloadavg()[0], 2),
        "versions": report.versions() | report.stack_versions(),
        "failed": failed,
        "figures": [figure.as_dict() for figure in figures],
    }
    same = before.get("machine") == results["machine"]
    changes = compare(map(Figure.of, before.get("figures", [])), figures, same_machine=same)
    text = page(results, figures, before, changes)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / _FILE.name).write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    (args.out / _PAGE.name).write_text(text, "utf-8")
    print(text)
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}.")


def _run(args: argparse.Namespace) -> tuple[list[Figure], list[str]]:
    """Return the figures of the benches that worked, and the names of those that failed."""
    figures: list[Figure] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="onramp-bench-") as name:
        for bench in BENCHES:
            if bench.name not in args.only:
                continue
            files = [Path(name) / f"{bench.name}-{number}.json" for number in range(bench.rounds(args))]
            arguments = bench.arguments(args)
            if all(_python(bench.module, *arguments, "--out", str(file)) for file in files):
                figures += bench.figures([json.loads(file.read_text("utf-8")) for file in files])
            else:
                failed.append(bench.name)
        if "load" in args.only:
            if not _python("loadtest.run", "seeds", RISING, "--seconds", str(args.seconds), "--out", name):
                failed.append("load")
            files = sorted(Path(name).glob("load-*.json"))
            figures += load_figures([json.loads(file.read_text("utf-8")) for file in files])
    return figures, failed


def _python(module: str, *arguments: str) -> bool:
    """Run a module; return whether it succeeded."""
    print(f"python -m {module} {' '.join(arguments)}", flush=True)
    return not subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, check=False).returncode


def _committed() -> dict[str, Any]:
    """Return the report that was committed last; empty when there is none."""
    answer = subprocess.run(
        ["git", "show", f"HEAD:{_FILE.relative_to(ROOT)}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    results: dict[str, Any] = json.loads(answer.stdout) if answer.returncode == 0 else {}
    return results


def page(
    results: dict[str, Any], figures: list[Figure], before: dict[str, Any], changes: list[Change]
) -> str:
    """Return the report in Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    when = (
        f"`{results['command']}`, {results['at']}, load average {results['load_average_before']} before it."
    )
    lines = [
        _HEAD,
        f"{when} {results['machine']}; {versions}.",
        *(f"\n**FAILED**: {name}." for name in results["failed"]),
        "",
        "| figure | unit | better | value | limit | ratio |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {f.name} | {f.unit} | {f.better} | "
        f"{' | '.join(range_of(each) for each in (f.values, f.limit, f.ratio))} |"
        for f in figures
    ]
    lines += ["", "## Against the last committed report", ""]
    if not before:
        return "\n".join([*lines, "There was none."]) + "\n"
    lines += [f"Before: {before['at']}, onramp {before['versions']['onramp']}, {before['machine']}.", ""]
    if before["machine"] != results["machine"]:
        lines += ["Another machine: only ratios to a limit are compared.", ""]
    slower = [change for change in changes if change.slower]
    lines += [
        f"- **SLOWER** {c.name}: {range_of(c.before)} before, {range_of(c.after)} now ({c.factor:.2f} times)"
        for c in slower
    ]
    if not slower:
        lines.append(f"Nothing of {len(changes)} figures got slower beyond the noise.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
