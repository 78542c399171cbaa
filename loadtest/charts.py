"""A run as a picture: rate, latencies, lag and CPU over time."""

from pathlib import Path
from typing import Any, Final

import numpy as np

_STYLES: Final = {"p50": ":", "p95": "--", "p99": "-"}
_MAX_PROCESSES: Final = 8
_MIN_CORES: Final = 0.01


def draw(result: dict[str, Any], file: Path) -> None:
    """Write the picture as PNG."""
    import matplotlib as mpl  # noqa: PLC0415 - only who draws needs it
    import matplotlib.pyplot as plt  # noqa: PLC0415

    mpl.use("Agg")  # no screen, whatever is installed
    line = result["over_time"]
    figure, (rate, latency, lag, cpu) = plt.subplots(4, 1, figsize=(10, 12), sharex=True)
    figure.suptitle(
        f"{result['shape']}, {result['via']}, {result['bytes_of_data']} B\n{result['machine']}, "
        f"{result['at']}, {result['target']}",
        fontsize=9,
    )
    for name in ("offered", "accepted", "landed"):
        if name in line:
            rate.plot(line[name], label=name, linewidth=1)
    _finish(rate, "packets/s")
    for key, color in (("request_ms", "tab:blue"), ("row_ms", "tab:green")):
        for name, style in _STYLES.items():
            if key in line:
                label = f"{'request' if key == 'request_ms' else 'request to row'} {name}"
                latency.plot(_numbers(line[key][name]), style, color=color, label=label, linewidth=1)
    latency.set_yscale("log")
    _finish(latency, "ms from the intended start")
    lag.plot(_numbers(line["lag"]), linewidth=1, label="records above the ledger")
    _finish(lag, "lag")
    costs = [(name, cost) for name, cost in result["processes"].items() if cost["cores"] >= _MIN_CORES]
    for name, _ in costs[:_MAX_PROCESSES]:
        cpu.plot(_numbers(line["cores"].get(name, [])), label=name, linewidth=1)
    _finish(cpu, "cores")
    cpu.set_xlabel("seconds")
    figure.tight_layout()
    figure.savefig(file, dpi=80, metadata={"Software": None})
    plt.close(figure)


def _numbers(values: list[float | None]) -> Any:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _finish(axes: Any, unit: str) -> None:
    axes.set_ylabel(unit)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=7, ncols=3)
