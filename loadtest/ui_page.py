"""Renders the page of `make bench-ui`'s stored result: no figure is typed by hand."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from loadtest.pages import RESULTS

RESULT: Final = "ui.json"
_PAGE: Final = "ui.md"
_HEAD: Final = """\
# The web UI

Made by `python -m loadtest.ui_page` from the file next to it; do not edit it by hand. Each page is asked for
over one connection that stays open. *CPU* is that of the admin service by request, with its background
readings meanwhile. *First visit* includes stylesheet, scripts and fonts; all bytes are as sent, gzipped.
Generator, Kafka, Postgres, gateway, writer and admin service share the machine.
"""
#: Goals: milliseconds of a page (p95), of its CPU, bytes, seconds of a statement (max) and journeys (p99).
GOALS: Final = {"p95": 100.0, "cpu_ms": 20.0, "first_bytes": 160_000, "later_bytes": 20_000}
_STATEMENT_MS: Final = 2_000.0
_JOURNEY_MS: Final = {"by receipt": 1_000.0, "by id": 3_000.0, "by id and type": 3_000.0}
_IDLE_PERCENT: Final = 5.0


def page(result: dict[str, Any]) -> str:
    """Return the page of one result."""
    lines = [
        ["page", "p50 ms", "p95 ms", "CPU ms", "first visit kB", "later kB", "above its goal"],
        ["---"] * 7,
        *(_row(name, each) for name, each in result["pages"].items()),
    ]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    listed = "\n".join(f"- {figure}" for figure in _figures(result))
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    goals = (
        f"Goals: p95 {GOALS['p95']:.0f} ms, CPU {GOALS['cpu_ms']:.0f} ms, first visit "
        f"{GOALS['first_bytes'] // 1000} kB, later {GOALS['later_bytes'] // 1000} kB."
    )
    about = (
        f"{result['types']:,} event types of {result['partitions']} partitions, {result['events']:,} parked "
        f"events in as many groups as types, {result['rows']:,} rows in ten tables. "
        f"`{result['command'].strip()}`, {result['at']}. Load average {result['load_average_before']} before "
        f"it, {result['load_average_after']} after it. {result['machine']}; {versions}."
    )
    return f"{_HEAD}\n{listed}\n\n{goals}\n\n{table}\n\n{about}\n"


def write(folder: Path = RESULTS) -> None:
    """Write the page into the folder of its result."""
    result = json.loads((folder / RESULT).read_text("utf-8"))
    (folder / _PAGE).write_text(page(result), "utf-8")


def above(each: dict[str, Any]) -> list[str]:
    """Return the goals that a page misses."""
    figures = {"p95": each["ms"]["p95"], **{name: each[name] for name in GOALS if name != "p95"}}
    return [name for name, goal in GOALS.items() if figures[name] > goal]


def _row(name: str, each: dict[str, Any]) -> list[str]:
    missed = ", ".join(name.removesuffix("_ms").replace("_", " ") for name in above(each))
    times = [f"{each['ms'][at]:,.1f}" for at in ("p50", "p95")]
    sizes = [f"{each[size] / 1000:,.1f}" for size in ("first_bytes", "later_bytes")]
    return [name, *times, f"{each['cpu_ms']:,.1f}", *sizes, missed or "–"]  # noqa: RUF001 - a dash for none


def _figures(result: dict[str, Any]) -> Iterator[str]:
    for tabs, percent in result["idle_percent"].items():
        goal = f" (goal {_IDLE_PERCENT:.0f} %)" if tabs != "0" else ""
        yield f"the admin service used {percent} % of a core with {tabs} tabs that poll{goal}"
    made = result["statement"]
    missing = f"; not evaluated: {', '.join(made['unevaluated'])}" if made["unevaluated"] else ""
    yield (
        f"a statement over {made['databases']} databases, {made['partitions']:,} partitions in all: p50 "
        f"{made['ms']['p50']:,.0f} ms, max {made['ms']['max']:,.0f} ms (goal {_STATEMENT_MS:,.0f} ms), "
        f"CPU {made['cpu_ms']:,.0f} ms{missing}"
    )
    for name, each in result["journeys"].items():
        ms = each["ms"]
        yield (
            f"journey {name}: p50 {ms['p50']:,.0f} ms, p99 {ms['p99']:,.0f} ms, max {ms['max']:,.0f} ms "
            f"(goal {_JOURNEY_MS[name]:,.0f} ms); {each['not_landed']} of them were not found as landed"
        )
    yield f"the admin service had {result['admin_rss_mib']:,} MiB at the end (RSS)"


if __name__ == "__main__":
    write()
