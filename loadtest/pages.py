"""The pages that are generated from measured results: loadtest/results/README.md and docs/capacity.md.

Nothing on them is typed by hand: a figure without a result's file cannot get there.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any, Final

from loadtest.target import ROOT

RESULTS: Final = ROOT / "loadtest" / "results"
CAPACITY: Final = ROOT / "docs" / "capacity.md"

#: Shorter runs are trials: they are neither kept by git nor shown.
MIN_SECONDS: Final = 60.0
_SHARE: Final = 0.95
_IN_TIME_MS: Final = 2000
_MAX_COSTS: Final = 3

_RESULTS_HEAD: Final = """\
# Load, measured

Made by `python -m loadtest.pages` from the files next to it; do not edit it by hand. How a
run works and what each figure means is in [loadtest/README.md](../README.md).
"""
_CAPACITY_HEAD: Final = """\
# Capacity

Made by `python -m loadtest.pages` from the committed results of load runs
([loadtest/results](../loadtest/results/README.md)); do not edit it by hand. All runs were on one machine
with brokers, Postgres, gateway, writer and load generator. The page has no rate without a run.
"""
_MEANINGS: Final = """\
*Sustained* means that rows landed at 95 % of the offered rate or more, up to the last row.
*Cores* is the average over the run; the three largest are named.
"""
_NOTHING: Final = "No run of a minute or more has been committed yet: `make load-full` writes them.\n"


def results(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Return the runs that count, in the order of their files' names."""
    results = [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("load-*.json"))]
    return [each for each in results if each["seconds"] >= MIN_SECONDS]


def results_page(runs: Sequence[dict[str, Any]]) -> str:
    """Return all runs, one per line, with the machine of each."""
    parts = [_RESULTS_HEAD, _table(_RATES, [_rates(run) for run in runs]) if runs else _NOTHING]
    for run in runs:
        parts += [
            f"## {run['file']}",
            _about(run),
            _verified(run),
            *_stood_still(run),
            _table(("", "p50 ms", "p95 ms", "p99 ms", "max ms"), list(_latencies(run))),
            _table(("process", "CPU µs per packet", "cores", "PSS MiB"), list(_costs(run))),
            f"![Rate, latencies, lag and CPU over time]({run['file']}.png)",
        ]
    return _page(parts)


def capacity_page(runs: Sequence[dict[str, Any]]) -> str:
    """Return the resources that a rate needs, and its first limit, from verified runs."""
    sound = [run for run in runs if (run["verified"] or {}).get("sound")]
    if not sound:
        return _page([_CAPACITY_HEAD, _NOTHING])
    kept = [run for run in sound if "steps" not in run]
    machines = sorted({run["machine"] for run in sound})
    parts = [
        _CAPACITY_HEAD,
        f"Measured on: {'; '.join(machines)}.",
        "## What a rate needs",
        _MEANINGS,
        _table(_NEEDS, [_needs(run) for run in kept]),
        "## What breaks first",
    ]
    parts += [text for run in sound if "steps" in run for text in _breaks(run)]
    if not any("steps" in run for run in sound):
        parts.append("No rising load has been measured yet.")
    return _page(parts)


_RATES: Final = (
    "shape",
    "s",
    "via",
    "B of data",
    "B on the wire",
    "offered/min",
    "accepted/min",
    "end to end/min",
    "request p99 ms",
    "to row p99 ms",
    "errors",
    "verified",
)


def _rates(run: dict[str, Any]) -> list[str]:
    return [
        run["shape"],
        f"{run['seconds']:g}",
        run["via"] if run["batch"] == 1 else f"{run['via']} of {run['batch']}",
        str(run["bytes_of_data"]),
        str(run["bytes_on_the_wire"]),
        f"{run['offered_per_minute']:,}",
        f"{run['accepted_per_minute']:,}",
        f"{run.get('end_to_end_per_minute', 0):,}",
        _p99(run["request_ms"]),
        _p99(run["request_to_row_ms"]),
        f"{sum(run['errors'].values()):,}" if run["via"] != "syslog" else "no answers",
        "no" if not run["verified"] else "sound" if run["verified"]["sound"] else "**NOT SOUND**",
    ]


def _p99(spread: dict[str, float] | None) -> str:
    return f"{spread['p99']:,.1f}" if spread else ""


def _about(run: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return (
        f"`{run['command']}`, {run['at']}, run `{run['run']}`. Load average {run['load_average_before']} "
        f"before it, {run['cores_of_others']} cores used by others during it. {run['machine']}; "
        f"{run['target']}; {run['partitions']} partitions; every topic has {run.get('replicas', '?')} "
        f"replicas or more and min ISR {run.get('min_insync', '?')}; {versions}."
    )


def _verified(run: dict[str, Any]) -> str:
    verdict = run["verified"]
    if not verdict:
        return "Not verified: the run was given no database to look into."
    audit = verdict["audit"]
    balanced = "balances" if audit.get("balanced") else "DOES NOT BALANCE"
    how = f"{audit.get('receipts', 0):,} receipts checked" if audit.get("deep") else "by the totals alone"
    return (
        f"{verdict['ok']:,} ok, {verdict['unknown']:,} unknown, {verdict['refused']:,} refused, "
        f"{verdict['landed']:,} landed; {verdict['lost']:,} lost, {verdict['duplicate']:,} twice, "
        f"{verdict['phantom']:,} phantoms, "
        f"{verdict['unsettled']:,} unsettled; the audit {balanced} ({how})."
    )


def _stood_still(run: dict[str, Any]) -> Iterable[str]:
    if still := run.get("stand_still"):
        yield (
            f"Rows stood still for {still['due_s']:.2f} s at the longest, from second "
            f"{still['from_second']:g} on: some were due, none landed. Counted from the answers to the "
            f"senders it was {still['accepted_s']:.2f} s; the longest time between two looks at the "
            f"ledger was {still['longest_between_looks_s']:.2f} s."
        )


def _latencies(run: dict[str, Any]) -> Iterable[list[str]]:
    lines = {
        "request": run["request_ms"],
        "request, warm": run["warm"]["request_ms"],
        "request to row": run["request_to_row_ms"],
        "request to row, warm": run["warm"]["request_to_row_ms"],
        "of that, the generator's own delay": run["late_ms"],
    }
    for name, spread in lines.items():
        if spread:
            yield [name, *(f"{spread[key]:,.1f}" for key in ("p50", "p95", "p99", "max"))]


def _costs(run: dict[str, Any]) -> Iterable[list[str]]:
    for name, cost in run["processes"].items():
        pss = f"{cost['pss_mib']:,.0f}" if "pss_mib" in cost else ""
        yield [name, f"{cost['us_per_packet']:,.1f}", f"{cost['cores']:.2f}", pss]


_NEEDS: Final = (
    "packets/min end to end",
    "offered/min",
    "sustained",
    "minutes",
    "B of data",
    "form",
    "brokers and replicas",
    "partitions",
    "gateway processes",
    "executor slots",
    "connections",
    "cores in all",
    "of which",
)


def _needs(run: dict[str, Any]) -> list[str]:
    costs = run["processes"]
    largest = sorted(costs.items(), key=lambda item: -item[1]["cores"])[:_MAX_COSTS]
    landed = run.get("end_to_end_per_minute", 0)
    return [
        f"{landed:,}",
        f"{run['offered_per_minute']:,}",
        "yes" if landed >= _SHARE * run["offered_per_minute"] else "no",
        f"{run['seconds'] / 60:g}",
        str(run["bytes_of_data"]),
        run["via"] if run["batch"] == 1 else f"{run['via']} of {run['batch']}",
        run["target"].partition("(")[2].partition(")")[0] or "not ours",
        str(run["partitions"]),
        str(run["gateway_processes"] or ""),
        str(run["executor_slots"] or ""),
        str(run["connections"]),
        f"{sum(cost['cores'] for cost in costs.values()):.2f}",
        ", ".join(f"{name} {cost['cores']:.2f}" for name, cost in largest),
    ]


def _breaks(run: dict[str, Any]) -> Iterable[str]:
    # Once warm, not beyond the first that was not: a later one's rows may be what it left behind.
    sustained = list(takewhile(_follows, dropwhile(lambda step: not _follows(step), run["steps"])))
    last = max((step["offered_per_minute"] for step in sustained), default=0)
    yield (
        f"`{run['shape']}` ({run['bytes_of_data']} B, {run['via']} of {run['batch']}; partitions "
        f"{run['partitions']}, gateway processes {run['gateway_processes']}, executor slots "
        f"{run['executor_slots']}, connections {run['connections']}) was sustained up to "
        f"**{last:,} packets a minute**. A step is sustained if 95 % of its packets were accepted, with a "
        "p99 of at most two seconds, and became rows within the step or with such a p99."
    )
    yield _table(
        ("offered/min", "accepted/min", "landed/min", "request p99 ms", "to row p99 ms", "sustained"),
        [
            [
                f"{step['offered_per_minute']:,}",
                f"{step['accepted_per_minute']:,}",
                f"{step.get('landed_per_minute', 0):,}",
                _p99(step["request_ms"]),
                _p99(step.get("request_to_row_ms")),
                "yes" if step in sustained else "no",
            ]
            for step in run["steps"]
        ],
    )
    beyond = [step for step in run["steps"] if step["offered_per_minute"] > last]
    if not beyond:
        yield "No limit was reached: the last step was sustained as well."
        return
    first = beyond[0]
    who = (
        "the writer: accepted events became rows too late"
        if _accepted_in_time(first)
        else "the gateway: requests were answered too late or not at all"
    )
    yield (
        f"The first limit, at {first['offered_per_minute']:,} a minute, was {who}. Cores used at the end: "
        + ", ".join(_busiest(run))
        + "."
    )


def _follows(step: dict[str, Any]) -> bool:
    in_rows = step.get("landed_per_minute", 0) >= _SHARE * step["offered_per_minute"]
    return _accepted_in_time(step) and (in_rows or _in_time(step.get("request_to_row_ms")))


def _accepted_in_time(step: dict[str, Any]) -> bool:
    accepted: float = step["accepted_per_minute"]
    return accepted >= _SHARE * step["offered_per_minute"] and _in_time(step["request_ms"])


def _in_time(spread: dict[str, float] | None) -> bool:
    return spread is not None and spread["p99"] <= _IN_TIME_MS


def _busiest(run: dict[str, Any]) -> list[str]:
    """Return each process's share of the machine in the last ten seconds of the load."""
    line = run["over_time"]
    end = max((n for n, offered in enumerate(line["offered"]) if offered), default=0) + 1
    used = {}
    for name, cores in line["cores"].items():
        known = [value for value in cores[max(0, end - 10) : end] if value is not None]
        if known:
            used[name] = sum(known) / len(known)
    return [f"{name} {cores:.2f}" for name, cores in sorted(used.items(), key=lambda item: -item[1])]


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(part.strip() for part in parts) + "\n"


def write(folder: Path = RESULTS) -> None:
    """Write the pages; pages of results in another folder are written there, and change no document."""
    runs = results(folder)
    (folder / "README.md").write_text(results_page(runs), "utf-8")
    if folder.resolve() == RESULTS:
        CAPACITY.write_text(capacity_page(runs), "utf-8")


if __name__ == "__main__":
    write()
