"""The dashboards of deploy/grafana as pictures, from a Prometheus: the same queries, without Grafana.

`python -m loadtest.dashboard_pictures http://127.0.0.1:9090` while `onramp up --prometheus` runs.
"""

import argparse
import re
import time
from pathlib import Path
from typing import Any, Final

import httpx2
import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from docs.dashboards import DASHBOARDS
from docs.grafana import Panel

PICTURES: Final = Path(__file__).resolve().parent.parent / "docs/pictures"
_COLUMNS: Final = 2
_POINTS: Final = 240
_MAX_LINES: Final = 8
_LEGEND: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_UNITS: Final = {
    "d": "days",
    "cps": "a second",
    "s": "seconds",
    "none": "",
    "short": "",
    "bytes": "bytes",
    "percentunit": "share",
    "reqps": "requests/s",
}


def draw(url: str, name: str, seconds: float, file: Path) -> None:
    """Write the dashboard of the last `seconds` as PNG.

    Raises:
        httpx2.HTTPError: the Prometheus at `url` does not answer, or refuses a query.
    """
    mpl.use("Agg")  # no screen, whatever is installed
    title, panels = DASHBOARDS[name]
    rows = -(-len(panels) // _COLUMNS)
    figure, grid = plt.subplots(rows, _COLUMNS, figsize=(14, 2.6 * rows), squeeze=False)
    figure.suptitle(title)
    until = time.time()
    for axes, of in zip(grid.flat, panels, strict=False):
        _draw_panel(axes, of, url, until, seconds)
    for axes in [*grid.flat][len(panels) :]:
        axes.remove()
    figure.tight_layout()
    figure.savefig(file, dpi=70, metadata={"Software": None})
    plt.close(figure)


def _draw_panel(axes: Axes, of: Panel, url: str, until: float, seconds: float) -> None:
    title, unit, queries = of
    axes.set_title(title, fontsize=9)
    axes.set_ylabel(_UNITS.get(unit, unit), fontsize=7)
    axes.set_xlim(0, seconds)
    axes.tick_params(labelsize=7)
    axes.grid(visible=True, alpha=0.3)
    lines = [(legend, series) for query, legend in queries for series in _range(url, query, until, seconds)]
    for legend, series in lines[:_MAX_LINES]:
        times = [at - until + seconds for at, _ in series["values"]]
        label = _LEGEND.sub(lambda found, of=series["metric"]: of.get(found[1], ""), legend)
        axes.plot(times, [float(value) for _, value in series["values"]], label=label, linewidth=1)
    if lines:
        axes.legend(fontsize=6, ncols=2)
    else:
        axes.text(0.5, 0.5, "nothing of this happened", ha="center", transform=axes.transAxes, fontsize=8)


def _range(url: str, query: str, until: float, seconds: float) -> list[Any]:
    asked = {"query": query, "start": until - seconds, "end": until, "step": max(1.0, seconds / _POINTS)}
    answer = httpx2.get(f"{url}/api/v1/query_range", params=asked, timeout=60).raise_for_status()
    found: list[Any] = answer.json()["data"]["result"]
    return found


def main() -> None:
    """Draw the requested dashboard."""
    parser = argparse.ArgumentParser(
        "python -m loadtest.dashboard_pictures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("url", help="of a Prometheus that scrapes Onramp")
    parser.add_argument("--only", nargs="+", choices=sorted(DASHBOARDS), default=sorted(DASHBOARDS))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--out", type=Path, default=PICTURES, help="folder of the pictures")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.only:
        draw(args.url, name, args.minutes * 60, args.out / f"{name}.png")


if __name__ == "__main__":
    main()
