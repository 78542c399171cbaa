"""Renders the page of `python -m loadtest.bench_registry`'s stored results: no figure is typed by hand."""

import json
from pathlib import Path
from typing import Any, Final

from loadtest.page_sections import section, versions_of
from loadtest.pages import RESULTS

_PAGE: Final = "registry.md"
_HEAD: Final = """\
# The registry

Made by `make bench-registry` from the files next to it; do not edit it. Two figures are the lowest and
the highest of the rounds. The load average says how busy the machine was with other work, and when it
ran is next to each.
"""
#: Fields that describe how a run was made, not its result.
_ABOUT: Final = {"case", "at", "load_average_before", "load_average_after", "machine", "versions", "command"}
#: The goal of each case, in the order of the page.
_AIMS: Final = {
    "in-force": "A change is in force in the gateway and in the writer within a second (p99).",
    "read": "10,000 change sets are read within 3 s.",
    "types": "With 5,000 types an event costs the gateway at most 5 % more than with an empty registry.",
    "changing": "While 100 changes pass no request takes longer than 50 ms.",
    "plan": "`onramp plan` tries 50,000 events a second; during it live rows' p99 is at most twice as long.",
    "routes": "500 routed types make the writer at most 10 % slower than none.",
}


def page(results: dict[str, dict[str, Any]]) -> str:
    """Return the page of all stored results, by their cases."""
    known = [(case, results[case]) for case in _AIMS if case in results]
    return "\n".join([_HEAD, *(_section(case, result) for case, result in known)])


def _section(case: str, result: dict[str, Any]) -> str:
    busy = f"{result['load_average_before']} before it, {result['load_average_after']} after it"
    run = f"`{result['command']}`, {result['at']}. Load average {busy}"
    return section(case, _AIMS[case], result, f"{run}. {result['machine']}; {versions_of(result)}.", _ABOUT)


def write(folder: Path = RESULTS) -> None:
    """Write the page into the folder of its results."""
    results = {
        file.stem.removeprefix("registry-"): json.loads(file.read_text("utf-8"))
        for file in folder.glob("registry-*.json")
    }
    (folder / _PAGE).write_text(page(results), "utf-8")


if __name__ == "__main__":
    write()
