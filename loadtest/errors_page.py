"""Renders the page of `make bench-errors`' stored result: no figure is typed by hand."""

import json
from pathlib import Path
from typing import Any, Final

from loadtest.pages import RESULTS

RESULT: Final = "errors.json"
_PAGE: Final = "errors.md"
_HEAD: Final = """\
# A million parked events

Made by `python -m loadtest.errors_page` from the file next to it; do not edit it by hand. Parked events
are put on their topic, kept and packed by the admin service, asked for over its socket, discarded,
restored and replayed, as they were and with a fix. Generator, Kafka, Postgres, gateway, writer and admin
service share the machine.
"""
_SPREAD: Final = ("p50", "p95", "p99", "max")
_JOBS: Final = {
    "discard": "discard",
    "restore": "restore",
    "replay": "replay",
    "replay_fixed": "replay with a fix",
}


def page(result: dict[str, Any]) -> str:
    """Return the page of one result."""
    live = result["live"]
    figures = [
        f"kept {result['keep']['kept_per_s']:,} a second",
        *(_job(what, result[name]) for name, what in _JOBS.items() if name in result),
        *([f"both replays together: {both:,} a second"] if (both := result.get("replays_per_s")) else ()),
        _job("replay during live events", live["replay"]),
        _live(live),
        f"the admin service had {result['admin_rss_mib']:,.0f} MiB at most (RSS)" + _phases(result),
    ]
    if typed := result.get("typed"):
        figures.append(
            f"`typed-bad-1%` was {typed['slower_percent']} % slower with an admin service "
            f"({_rates(typed['with'])} events a second, {_rates(typed['without'])} without)"
        )
    lines = [["asked", *(f"{name} ms" for name in _SPREAD)], ["---"] * (len(_SPREAD) + 1)]
    lines += [[what, *(f"{ms[name]:,.1f}" for name in _SPREAD)] for what, ms in result["pages_ms"].items()]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    about = f"{result['events']:,} events of {result['bytes']} bytes in {result['groups']:,} groups. "
    about += f"`{result['command'].strip()}`: {result['machine']}; {versions}."
    listed = "\n".join(f"- {figure}" for figure in figures)
    return f"{_HEAD}\n{listed}\n\n{table}\n\n{about}\n"


def write(folder: Path = RESULTS) -> None:
    """Write the page into the folder of its result."""
    result = json.loads((folder / RESULT).read_text("utf-8"))
    (folder / _PAGE).write_text(page(result), "utf-8")


def _job(name: str, job: dict[str, Any]) -> str:
    done = f"{job['changed']:,} of {job['counted']:,}"
    return f"{name}: {done} in {job['seconds']:,} s, {job['per_s']:,} a second"


def _phases(result: dict[str, Any]) -> str:
    """Return the memory by phase, where it was measured."""
    most = result.get("rss_mib", {}).items()
    return "".join(f"; {phase.removesuffix('_ms').replace('_', ', ')} {mib:,.0f}" for phase, mib in most)


def _live(live: dict[str, Any]) -> str:
    p99 = f"{live['during_ms']['p99']:,.1f} ms during it, {live['before_ms']['p99']:,.1f} before"
    return f"p99 of live events to the row: {p99}, {live['p99_ratio']} times as long"


def _rates(rates: list[float]) -> str:
    return f"{min(rates):,} to {max(rates):,}"


if __name__ == "__main__":
    write()
