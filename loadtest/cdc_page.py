"""Renders the page of `make bench-cdc`'s stored results: no figure is typed by hand."""

import json
from pathlib import Path
from typing import Any, Final

from loadtest.page_sections import section, versions_of
from loadtest.pages import RESULTS

_RESULT: Final = "cdc.json"
_PAGE: Final = "cdc.md"
_HEAD: Final = """\
# Sources: from a commit to a row

Made by `make bench-cdc` from [cdc.json](cdc.json); do not edit it by hand. The generator, all Postgres
servers, Kafka, Kafka Connect, the writer, the merger and the watch share the machine. A change counts
as public when a connection of its own, asking every 10 ms, sees the counter that moves with the public
table. Two figures are the lowest and the highest. How busy and how fast the machine was stands beneath
each part: the load average, and the CPU seconds of 20 million additions in a loop of Python.
"""
#: Fields that describe how a part was run, not its result.
_ABOUT: Final = {"at", "load_average_before", "additions_s", "machine", "versions", "command"}
#: The goal of each part, in the order of the page.
_AIMS: Final = {
    "latency-1": "One table: a commit's row is public within 500 ms (p99).",
    "latency-20": "Twenty tables: within a second (p99).",
    "transaction": "A transaction of 100,000 rows is public within 15 s.",
    "backlog": "At least 15,000 changes a second are landed and merged.",
    "snapshot": "A million rows are public within 120 s, under writes.",
    "connect": "Kafka Connect with three sources takes at most 300 MB, and 15 s to start.",
    "crash": "Changes flow within 5 s after the source's Postgres answers again.",
    "dead": "While one of two sources is dead, the p99 of the other stays the same.",
    "source": "The agent takes at most 0.5 % of a core of a source's server for 50 tables, 2 % for 3,000.",
}


def page(results: dict[str, dict[str, Any]]) -> str:
    """Return the page of all stored results, by their parts."""
    known = [(part, results[part]) for part in _AIMS if part in results]
    return "\n".join([_HEAD, *(_section(part, result) for part, result in known)])


def keep(part: str, found: dict[str, Any], folder: Path = RESULTS) -> None:
    """Store a part's result in place of the previous one, and write the page."""
    file = folder / _RESULT
    results = json.loads(file.read_text("utf-8")) if file.exists() else {}
    results[part] = found
    in_order = {name: results[name] for name in _AIMS if name in results}
    file.write_text(json.dumps(in_order, indent=1) + "\n", "utf-8")
    (folder / _PAGE).write_text(page(in_order), "utf-8")


def _section(part: str, result: dict[str, Any]) -> str:
    about = (
        f"`{result['command']}`, {result['at']}. Load average {result['load_average_before']} before it; "
        f"20 million additions {result['additions_s']} s. {result['machine']}; {versions_of(result)}."
    )
    return section(part, _AIMS[part], result, about, _ABOUT)
