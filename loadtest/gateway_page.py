"""Renders the page of the gateway's stored results: no figure is typed by hand."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from loadtest.figures import range_of
from loadtest.pages import RESULTS

_PAGE: Final = "gateway.md"
_HEAD: Final = """\
# The gateway beside a bare Kafka producer

Made by `python -m loadtest.gateway_page` from the files next to it; do not edit it by hand. Every cell is
the lowest to the highest of its rounds.

The bare producer is asyncio and aiokafka fed from memory, with the same bytes, headers and
acknowledgements; its batches are prepared record batches, so it does no HTTP, no JSON and no
checks. The gateway ran with its whole validation and a key. CPU is of the gateway's process tree alone;
the load generator and the broker shared the machine's cores with it.
"""
_SINGLES: Final = """\
Single events at a steady rate, open loop, over one name and over many: what an event costs while the
gateway is not busy. Whose part of it this is, and why it is not less:
[ADR 35](../../docs/adr/0035-cpu-cost-of-a-single-event.md).
"""
_FLOODS: Final = """\
Hostile clients, each flood on a gateway of its own; the largest resident set is the kernel's own figure
(`VmHWM`). The limit is the budget and 100 MiB. The memory that a flood holds, before and after the
bound: [ADR 29](../../docs/adr/0029-gateway-memory-limits.md).
"""
_SATURATED: Final = ("gateway µs CPU/event", "of the first", "bare producer", "events/s", "p50 ms", "p99 ms")
_STEADY: Final = {
    "us_per_event": "µs CPU/event",
    "requests_per_s": "produce requests/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
}


def page(singles: dict[str, Any], saturated: Sequence[dict[str, Any]], floods: dict[str, Any]) -> str:
    """Return the page; `saturated`: results of bench_gateway."""
    parts = [_HEAD, "## At a steady rate", _SINGLES, _command_line(singles), _steady(singles)]
    parts.append("## As much as it takes")
    for result in saturated:
        parts += [_command_line(result), _as_much(result)]
    parts += ["## Memory under floods", _FLOODS, _command_line(floods), _flooded(floods)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _command_line(result: dict[str, Any]) -> str:
    return f"`{result['command']}`, {result['machine']}:"


def _steady(result: dict[str, Any]) -> str:
    lines = [
        [str(case["names"]), *(range_of([of[key] for of in case["rounds"]]) for key in _STEADY)]
        for case in result["cases"]
    ]
    return _table(("names", *_STEADY.values()), lines)


def _as_much(result: dict[str, Any]) -> str:
    """Return a line for each scenario; a variant is compared with the scenario that its name begins with."""
    scenarios: dict[str, list[dict[str, float]]] = result["scenarios"]
    lines = []
    for title, rounds in scenarios.items():
        first = next(rows for name, rows in scenarios.items() if title.startswith(name))
        ratios = [of["cpu"] / its["cpu"] for of, its in zip(rounds, first, strict=True)]
        columns = [[of[key] for of in rounds] for key in ("cpu", "bare", "per_second", "p50", "p99")]
        columns.insert(1, ratios)
        lines.append([title, *map(range_of, columns)])
    return _table(("", *_SATURATED), lines)


def _flooded(result: dict[str, Any]) -> str:
    rows = [
        [of["flood"], *(f"{n:.0f}" for n in (of["before_mib"], of["most_mib"], result["limit_mib"]))]
        for of in result["floods"]
    ]
    return _table(("flood", "MiB before", "MiB at most", "limit"), rows)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


def of(folder: Path) -> str:
    """Return the page of the results in `folder`."""

    def read_result(name: str) -> dict[str, Any]:
        result: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
        return result

    saturated = [read_result(name) for name in ("gateway-saturated", "gateway-tls")]
    return page(read_result("gateway-singles"), saturated, read_result("floods"))


def write(folder: Path = RESULTS) -> None:
    """Write the page into the folder of its results."""
    (folder / _PAGE).write_text(of(folder), "utf-8")


if __name__ == "__main__":
    write()
