"""A section of a page of measured results: its aim, a table of all figures, and how they were made."""

from collections.abc import Collection
from typing import Any


def section(name: str, aim: str, result: dict[str, Any], about: str, left_out: Collection[str]) -> str:
    """Return the section; its table has the figures of `result` that are not in `left_out`."""
    rows = [("figure", ""), ("---", "---:")]
    rows += [(key.replace("_", " "), _cell(value)) for key, value in result.items() if key not in left_out]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    return f"## {name}\n\n{aim}\n\n{table}\n\n{about}\n"


def versions_of(result: dict[str, Any]) -> str:
    """Return the versions with which it was measured."""
    return ", ".join(f"{key} {value}" for key, value in result["versions"].items())


def _cell(value: Any) -> str:
    if value is None:
        return "not told"
    if isinstance(value, dict):
        return ", ".join(f"{key} {each:,}" for key, each in value.items())
    if isinstance(value, list):
        return " to ".join(f"{each:,}" for each in value)
    return f"{value:,}"
