"""Sources as `onramp sources list` prints them: state, WAL, suspended tables, and what to do."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from services.cli.show.tables import print_table
from shared.printable_text import printable

_MB: Final = 1 << 20
_NUMBERS: Final = ("TABLES", "WAL", "POLLED")
_COLUMNS: Final = ("SOURCE", "STATE", *_NUMBERS)


def is_well(row: Mapping[str, Any]) -> bool:
    """Return whether a source is streaming without suspended tables, and its agent still polls."""
    return row["state"] == "streaming" and not row["suspended"] and not _is_silent(row)


def print_sources(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table of sources, and below it what to do about those that are not well."""
    print_table(_COLUMNS, map(_row, rows), _NUMBERS)
    for row in rows:
        for note in _notes(row):
            print(printable(f"{row['source']}: {note}"))


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    retained = row["retained_bytes"]
    wal = "no slot" if retained is None else f"{retained / _MB:,.0f} MB"
    return row["source"], row["state"], str(row["tables"]), wal, f"{row['polled_s_ago']:.0f} s ago"


def _notes(row: Mapping[str, Any]) -> Iterator[str]:
    if _is_silent(row):
        yield (
            f"the agent's last report is older than {_silent_seconds():.0f} s: start "
            "python -m services.cdc.agent, or see its log (`onramp up` starts it)"
        )
    if row["reason"]:
        yield row["reason"]
    for table in row["suspended"]:
        since = f" since {table['since']}" if table["since"] else ""
        yield f"table {table['table']} is suspended{since}: {table['reason']}"
    if row["suspended"]:
        yield (
            "remove the cause and the table continues by itself; if it does not, "
            f"`onramp sources resync {row['source']}` re-snapshots the source"
        )


def _is_silent(row: Mapping[str, Any]) -> bool:
    return bool(row["polled_s_ago"] > _silent_seconds())


def _silent_seconds() -> float:
    from services.cdc.setup.source_requests_sql import SILENT_SECONDS

    return SILENT_SECONDS
