"""The report of a run: a JSON file, a chart, and lines for the terminal."""

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import psutil

from loadtest import charts, shapes, verify
from loadtest import pages as written
from loadtest.landed_rows import connect
from loadtest.pages import MIN_SECONDS, RESULTS
from loadtest.shapes import SEEDS, Shape
from loadtest.target import ROOT, Target
from stack.jars import read_lock
from stack.java import find_java

#: As the seed system's topic had.
PARTITIONS: Final = 6
TRIALS: Final = ROOT / ".onramp" / "load-trials"
_LIBRARIES: Final = ("aiokafka", "fastapi", "locust", "psycopg2-binary", "pyspark", "uvicorn")


def arguments(described: str) -> argparse.Namespace:
    """Return the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m loadtest.run", description=described, formatter_class=raw)
    parser.add_argument("shapes", nargs="+", help=f"seeds, all, or some of: {', '.join(shapes.NAMES)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each shape")
    parser.add_argument("--brokers", type=int, choices=(1, 3), help="instead of the shape's own")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="of the run's topic")
    parser.add_argument("--gateways", type=int, default=1, help="gateway processes of our own stack")
    parser.add_argument("--slots", type=int, default=2, help="executor slots of our own stack's writer")
    parser.add_argument("--per-minute", type=float, help="packets, instead of the shape's rate")
    for name in ("size", "batch", "connections"):
        parser.add_argument(f"--{name}", type=int, help=f"instead of the shape's {name}")
    parser.add_argument("--via", choices=tuple(shapes.USERS), help="instead of the shape's form")
    parser.add_argument("--web", action="store_true", help="locust's web UI on 127.0.0.1:8089")
    parser.add_argument("--keep", action="store_true", help="keep the stack's data in .onramp/load")
    help_of_out = f"folder of the results; unless given, runs below {MIN_SECONDS:g} s go to {TRIALS.name}"
    parser.add_argument("--out", type=Path, help=help_of_out)
    parser.add_argument("--url", help="load this gateway instead of a stack of our own")
    parser.add_argument("--api-key", default=os.environ.get("ONRAMP_API_KEY"), help="its key")
    parser.add_argument("--ca-file", type=Path, help="the CA of its certificate; else those trusted here")
    parser.add_argument("--kafka", help="its brokers: with --dsn the run is verified")
    parser.add_argument("--dsn", help="its writer's database")
    parser.add_argument("--database", default="onramp", help="that database's public name")
    parser.add_argument("--syslog", metavar="HOST:PORT", help="its syslog over TCP")
    args = parser.parse_args()
    args.out = args.out or (RESULTS if args.seconds >= MIN_SECONDS else TRIALS)
    return args


def wanted(args: argparse.Namespace) -> list[Shape]:
    """Return the requested shapes; exit if there is none of a name."""
    names = [n for each in args.shapes for n in {"seeds": SEEDS, "all": shapes.NAMES}.get(each, (each,))]
    other = {key: getattr(args, key) for key in ("per_minute", "size", "batch", "connections", "via")}
    other = {key: value for key, value in other.items() if value is not None}
    try:
        return [shapes.named(name, args.seconds, **other) for name in names]
    except ValueError as error:
        sys.exit(str(error))


def about(
    shape: Shape, target: Target, args: argparse.Namespace, load_average: tuple[float, float, float]
) -> dict[str, Any]:
    """Return the run, its machine and its command."""
    return {
        "file": name_of(shape, args),
        "shape": shape.name,
        "via": shape.via,
        "batch": shape.batch,
        "connections": shape.connections,
        "gateway_processes": target.gateways,
        "executor_slots": target.slots,
        "seconds": shape.seconds,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"python -m loadtest.run {' '.join(_harmless(sys.argv[1:]))}",
        "target": target.described,
        "machine": machine(),
        "load_average_before": round(load_average[0], 2),
        "versions": {**versions(), **(stack_versions() if target.processes else {}), **_postgres(target)},
    }


def _postgres(target: Target) -> dict[str, str]:
    if not target.dsn:
        return {}
    conn = connect(target.dsn)
    try:
        return {"postgresql": str(conn.info.parameter_status("server_version"))}
    finally:
        conn.close()


def machine() -> str:
    """Return a description of the machine."""
    memory = psutil.virtual_memory().total / 2**30
    return f"{platform.system()} {platform.machine()}, {psutil.cpu_count()} cores, {memory:.0f} GiB"


def versions() -> dict[str, str]:
    """Return the versions of the measured software, and of the generator."""
    return {
        "onramp": _commit(),
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
    }


def _commit() -> str:
    """Return the measured commit; files that runs write do not count as changes."""
    commit = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--", ".", ":!loadtest/results", ":!docs/capacity.md")
    return f"{commit or 'unknown'}{' with changes' if changed else ''}"


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def stack_versions() -> dict[str, str]:
    """Return the versions of software that only the embedded stack uses."""
    coordinates = [jar.coordinates for jar in read_lock("broker")]
    (kafka,) = (each for each in coordinates if each.startswith("org.apache.kafka:kafka_"))
    return {"java": str(find_java().major), "kafka": kafka.rpartition(":")[2]}


def _harmless(arguments: list[str]) -> list[str]:
    """Return the command without its secrets."""
    secret = ("--api-key", "--dsn")
    hidden = [f"{a.split('=')[0]}=…" if a.startswith(secret) and "=" in a else a for a in arguments]
    return ["…" if before in secret else a for before, a in zip(["", *hidden], hidden, strict=False)]


def name_of(shape: Shape, args: argparse.Namespace) -> str:
    """Return the file's name; it includes unusual options, so that variants replace no default run."""
    usual = {"partitions": PARTITIONS, "gateways": 1, "slots": 2, "brokers": None, "per_minute": None}
    usual |= dict.fromkeys(("size", "batch", "connections", "via"))
    other = [
        f"{k.replace('_', '-')}-{v:g}" if not isinstance(v, str) else v
        for k in usual
        if (v := getattr(args, k)) != usual[k]
    ]
    return "-".join(["load", shape.name, *other, f"{shape.seconds:g}s"])


def keep(result: dict[str, Any], out: Path) -> None:
    """Write the JSON file, one key per line, and the chart into the same folder."""
    out.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in result.items())
    (out / f"{result['file']}.json").write_text(f"{{\n{lines}\n}}\n", "utf-8")
    charts.draw(result, out / f"{result['file']}.png")


def pages(out: Path) -> None:
    """Write the pages that are generated from all results."""
    written.write(out)


def lines_of(result: dict[str, Any]) -> list[str]:
    """Return the result in a few lines."""
    verified = result["verified"]
    rates = {"offered": "offered", "accepted": "accepted", "end to end": "end_to_end"}
    lines = [
        "  " + ", ".join(f"{n} {result.get(f'{key}_per_minute', 0):,}/min" for n, key in rates.items()),
        f"  {result['bytes_of_data']} B of data, {result['bytes_on_the_wire']} B on the wire each",
        f"  request ms {result['request_ms']}",
        f"  generator late ms {result['late_ms']}",
        f"  request to row ms {result['request_to_row_ms']} (looked every {result['looked_every_ms']} ms)",
        f"  warm: {result['warm']}",
        f"  longest stand-still of rows: {result['stand_still']}",
        f"  others on this machine: {result['cores_of_others']} cores",
        *(f"  error {reason}: {count:,}" for reason, count in result["errors"].items()),
        *(f"  {name}: {cost}" for name, cost in result["processes"].items()),
    ]
    if verified is None:
        return [*lines, "  NOT VERIFIED: no --kafka and --dsn were given"]
    verdict = verify.Verdict(**{key: value for key, value in verified.items() if key != "sound"})
    return [
        *lines,
        f"  {'sound' if verdict.sound else 'NOT SOUND'}: ",
        *(f"    {each}" for each in verdict.lines()),
    ]
