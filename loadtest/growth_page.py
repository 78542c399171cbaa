"""Renders the page of `python -m loadtest.bench_growth`'s stored results: no figure is typed by hand."""

import json
from pathlib import Path
from typing import Any, Final

from loadtest.pages import RESULTS

_PAGE: Final = "growth.md"
_HEAD: Final = """\
# What grows in the writer

Made by `python -m loadtest.growth_page` from the files next to it; do not edit it by hand. Results
whose name ends in `before` are of the writer before it was bounded, or with its bound taken away.
Memory is PSS of the writer, its JVM and its workers together; bytes are keys, headers and values.
The load average says how busy the machine was with other work: read the seconds with it, not the
counts.
"""
#: Fields that describe how a run was made, not its result.
_ABOUT: Final = {"case", "at", "load_average_before", "load_average_after", "machine", "versions", "command"}


def page(results: dict[str, dict[str, Any]]) -> str:
    """Return the page of all stored results, by their names."""
    return "\n".join([_HEAD, *(_section(name, result) for name, result in sorted(results.items()))])


def _section(name: str, result: dict[str, Any]) -> str:
    figures = {
        key: value for key, value in result.items() if key not in _ABOUT and not isinstance(value, dict)
    }
    lines = [["figure", ""], ["---", "---:"]]
    lines += [[key.replace("_", " "), f"{value:,}"] for key, value in figures.items()]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    named = ", ".join(f"{key} {value}" for key, value in result["versions"].items())
    load = f"{result['load_average_before']} before it, {result['load_average_after']} after it"
    about = f"`{result['command']}`, {result['at']}. Load average {load}. {result['machine']}; {named}."
    return f"## {name}\n\n{about}\n\n{table}\n"


def write(folder: Path = RESULTS) -> None:
    """Write the page into the folder of its results."""
    results = {p.stem: json.loads(p.read_text("utf-8")) for p in folder.glob("growth-*.json")}
    (folder / _PAGE).write_text(page(results), "utf-8")


if __name__ == "__main__":
    write()
