"""Renders the page of `make bench-latency`'s stored result: no figure is typed by hand."""

import json
from pathlib import Path
from typing import Any, Final

from loadtest.pages import RESULTS

RESULT: Final = "latency.json"
_PAGE: Final = "latency.md"
_HEAD: Final = """\
# From an event's time to its row

Made by `python -m loadtest.latency_page` from the file next to it; do not edit it by hand.
Single events, each at its own time (open loop), over 40 event names and one more every ten
seconds; a row counts when another connection sees the ledger beyond its offset, asked every
10 ms. The generator, Kafka, Postgres, gateway and writer share the machine.
"""
_LABELS: Final = {
    "warm_request_to_row_ms": "to its row, after the first minute",
    "cold_request_to_row_ms": "to its row, in the first minute (JVM and tables are new)",
    "new_name_request_to_row_ms": "to its row, the first event of a new name (topic and table are made)",
    "warm_request_ms": "to the gateway's answer, after the first minute",
    "cold_request_ms": "to the gateway's answer, in the first minute",
}
_SPREAD: Final = ("p50", "p95", "p99", "max")


def page(result: dict[str, Any]) -> str:
    """Return the page of one result."""
    lines = [["", *(f"{name} ms" for name in _SPREAD)], ["---"] * (len(_SPREAD) + 1)]
    lines += [
        [label, *(f"{result[key][name]:,.1f}" for name in _SPREAD)]
        for key, label in _LABELS.items()
        if key in result  # the first results did not tell all of them
    ]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    about = (
        f"{result['events']:,} events over {result['names']} names, {result['refused']} refused, "
        f"{result['rows_not_seen']} rows not seen. "
        f"`{result['command'].strip()}`: {result['machine']}; {versions}."
    )
    return f"{_HEAD}\n{table}\n\n{about}\n"


def write(folder: Path = RESULTS) -> None:
    """Write the page into the folder of its result."""
    result = json.loads((folder / RESULT).read_text("utf-8"))
    (folder / _PAGE).write_text(page(result), "utf-8")


if __name__ == "__main__":
    write()
