"""Renders the page and the plot of `make bench-writer`'s stored results.

Like the pages of the load: no figure is typed by hand.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from loadtest.pages import RESULTS

#: The warm window starts when this share of the events is settled.
WARM_FROM: Final = 0.2
#: Below so many events the JVM is cold for most of a run: a trial, which is not stored.
MIN_EVENTS: Final = 1_000_000
_PAGE: Final = "writer.md"
_PLOT: Final = "writer-scale.png"
_SCALE_CASE: Final = "landing-250b"
_USUAL: Final = {"partitions": 6, "slots": 2}
_HEAD: Final = """\
# The writer beside Postgres' own COPY

Made by `python -m loadtest.writer_page` from the files next to it; do not edit it by hand. A
backlog is in Kafka first, then the writer starts. *Warm* is from the first fifth of the
events to the last, a window fixed beforehand; *cold start* is from the process's start to the
first settled batch. *Ratio* is warm events a second as a multiple of COPY's rows a second,
of the same rows into an empty table of the same shape with its primary key, in the same run.
CPU s is the whole run's, cold start included; PSS is the most that driver, JVM and workers
had together. Kafka, Postgres and the writer share the machine's cores.
"""
_NOTHING: Final = "No run of a million events or more has been committed yet.\n"
_COLUMNS: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "case": lambda r: r["case"],
    "events": lambda r: f"{r['events']:,}",
    "B of value": lambda r: f"{r['value_bytes']:g}",
    "partitions": lambda r: str(r["partitions"]),
    "slots": lambda r: str(r["slots"]),
    "cold start s": lambda r: f"{r['cold_start_s']:g}",
    "whole events/s": lambda r: f"{r['whole_rows_per_s']:,}",
    "warm events/s": lambda r: f"{r['warm_rows_per_s']:,}",
    "COPY rows/s": lambda r: f"{min(r['copy_rows_per_s']):,} to {max(r['copy_rows_per_s']):,}",
    "ratio": lambda r: f"{r['warm_to_copy']:.2f}",
    "CPU s: JVM, Python, Postgres": lambda r: ", ".join(
        f"{r['cpu_s'].get(kind, 0):g}" for kind in ("java", "python", "postgres")
    ),
    "warm CPU µs/event: JVM, Python, Postgres, Kafka": lambda r: ", ".join(
        f"{r['warm_cpu_s'].get(kind, 0) / (r['events'] * (1 - WARM_FROM)) * 1e6:.1f}"
        for kind in ("java", "python", "postgres", "kafka")
    ),
    "PSS MiB": lambda r: f"{r['most_pss_mib']:,.0f}",
    "outcomes": lambda r: ", ".join(f"{n:,} {name}" for name, n in r["outcomes"].items()),
}


def name_of(result: dict[str, Any]) -> str:
    """Return the file of a result."""
    return f"writer-{result['case'].rstrip('%')}-{result['partitions']}p-{result['slots']}s.json"


def results(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Return the stored results, in the order of their files' names."""
    return [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("writer-*.json"))]


def page(runs: Sequence[dict[str, Any]]) -> str:
    """Return the page."""
    if not runs:
        return f"{_HEAD}\n{_NOTHING}"
    usual = [r for r in runs if _is_usual(r)]
    others = [r for r in runs if not _is_usual(r)]
    parts = [_HEAD, _table(usual)]
    if others:
        parts += [
            f"## By partitions and task slots\n\n![Warm events a second]({_PLOT})",
            _table(sorted([*others, *_scale_usual(runs)], key=lambda r: (r["partitions"], r["slots"]))),
        ]
    how = "\n".join(f"- `{r['command']}`, {r['at']}: {_about(r)}" for r in runs)
    return "\n\n".join(part.strip() for part in [*parts, "## How", how]) + "\n"


def draw(runs: Sequence[dict[str, Any]], file: Path) -> None:
    """Plot warm events a second over partitions and over slots."""
    import matplotlib as mpl  # noqa: PLC0415 - only who draws needs it
    import matplotlib.pyplot as plt  # noqa: PLC0415

    mpl.use("Agg")
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True)
    for axis, along in zip(axes, _USUAL, strict=True):
        line = sorted((r[along], r["warm_rows_per_s"]) for r in runs if _is_on(r, along))
        axis.plot([x for x, _ in line], [y for _, y in line], marker="o")
        axis.set_xlabel(along)
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, alpha=0.3)
    axes[0].set_ylabel("warm events/s")
    figure.suptitle(f"{_SCALE_CASE}, {runs[0]['machine']}", fontsize=9)
    figure.tight_layout()
    figure.savefig(file, dpi=80, metadata={"Software": None})
    plt.close(figure)


def write(folder: Path = RESULTS) -> None:
    """Write the page, and the plot if there is a line to plot."""
    runs = results(folder)
    (folder / _PAGE).write_text(page(runs), "utf-8")
    if any(not _is_usual(r) for r in runs):
        draw(runs, folder / _PLOT)


def _is_usual(result: dict[str, Any]) -> bool:
    return all(result[name] == value for name, value in _USUAL.items())


def _is_on(result: dict[str, Any], along: str) -> bool:
    """Return whether only `along` differs from the defaults."""
    rest = {name: value for name, value in _USUAL.items() if name != along}
    return result["case"] == _SCALE_CASE and all(result[name] == value for name, value in rest.items())


def _scale_usual(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [r for r in runs if _is_usual(r) and r["case"] == _SCALE_CASE]


def _about(result: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return f"load average {result['load_average_before']} before it; {result['machine']}; {versions}."


def _table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [list(_COLUMNS), ["---"] * len(_COLUMNS)]
    lines += [[cell(r) for cell in _COLUMNS.values()] for r in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    write()
