"""Sources as `onramp sources list` prints them: state, WAL, suspended tables, and what to do."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_MB: Final = 1 << 20


def is_well(row: Mapping[str, Any]) -> bool:
    """Return whether a source is streaming without suspended tables, and its agent still polls."""
    return row["state"] == "streaming" and not row["suspended"] and not _is_silent(row)


def lines_of(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of one source."""
    kept = row["retained_bytes"]
    wal = "no slot" if kept is None else f"{kept / _MB:,.0f} MB of WAL"
    tables = "1 table" if row["tables"] == 1 else f"{row['tables']} tables"
    ago = f"polled {row['polled_s_ago']:.0f} s ago"
    yield f"{row['source']:<20} {row['state']:<14} {tables}, {wal}, {ago}"
    if _is_silent(row):
        yield (
            f"  the agent's last report is older than {_silent_seconds():.0f} s: start "
            "python -m services.cdc.agent, or see its log (`onramp up` starts it)"
        )
    if row["reason"]:
        yield f"  {row['reason']}"
    for table in row["suspended"]:
        since = f", since {table['since']}" if table["since"] else ""
        yield f"  suspended: {table['table']}{since}"
        yield f"    {table['reason']}"
    if row["suspended"]:
        yield (
            "  Remove the cause and the table goes on by itself; if it does not, "
            f"`onramp sources resync {row['source']}` re-snapshots the source"
        )


def _is_silent(row: Mapping[str, Any]) -> bool:
    return bool(row["polled_s_ago"] > _silent_seconds())


def _silent_seconds() -> float:
    from services.cdc.setup.source_requests_sql import SILENT_SECONDS

    return SILENT_SECONDS
