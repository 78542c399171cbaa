"""`make bench-lake`, second part: compaction of a year of flights that arrived in many small commits.

Days have ended, so each becomes one file. Figures are seconds and CPU of this process on a local folder, and
the time to open the table before and after.
"""

import argparse
import json
import tempfile
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from services.lake.compaction.delta_compact import compact
from services.lake.compaction.delta_maintain import checkpoint_if_due
from services.lake.compaction.policy import Policy
from shared.lake.lake_tables import Partitioning
from shared.lake.table_columns import base_schema

PARTITIONS: Final = 6


def main() -> None:
    """Fill a table, compact it, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, default=200)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _bench(Path(folder) / "flights", args.rows, args.commits)


def _flight(n: int) -> dict[str, object]:
    return {
        "carrier": ("UA", "AA", "B6", "DL")[n % 4],
        "flight": n % 5000,
        "origin": ("EWR", "JFK", "LGA")[n % 3],
        "dest": ("IAH", "MIA", "BQN", "ATL", "ORD")[n % 5],
        "dep_delay": n % 90 - 10.5,
        "distance": 200 + n % 2500,
        "tailnum": f"N{n % 4043:05}",
        "air_time": n % 600,
        "sched_dep_time": f"{n % 24:02}:{n % 60:02}",
    }


def _bench(folder: Path, rows: int, commits: int) -> None:
    """Append a year of flights in the order of their times, and compact the days."""
    each, first = rows // commits, datetime(2025, 1, 1, tzinfo=UTC)
    schema = pa.schema([*base_schema(Partitioning.DAY), pa.field("p_carrier", pa.string())])
    step = timedelta(days=365) / rows
    for commit in range(commits):
        numbers = range(commit * each, (commit + 1) * each)
        times = [first + n * step for n in numbers]
        columns = {
            "_id": [str(uuid.UUID(int=n)) for n in numbers],
            "_event_name": ["flight_departed"] * each,
            "_timestamp": times,
            "_version": ["1"] * each,
            "_received_at": times,
            "_topic": ["events.flight_departed"] * each,
            "_partition": [n % PARTITIONS for n in numbers],
            "_offset": [n // PARTITIONS for n in numbers],
            "payload": [json.dumps(_flight(n)) for n in numbers],
            "_date": [moment.date() for moment in times],
            "p_carrier": [("UA", "AA", "B6", "DL")[n % 4] for n in numbers],
        }
        write_deltalake(folder, pa.table(columns, schema), mode="append", partition_by=["_date"])
    table, opening = _opened(folder)
    before = len(table.file_uris())
    began, cpu = time.perf_counter(), time.process_time()
    results = [*compact(table, Policy(), datetime.now(UTC) + timedelta(days=2))]
    seconds, spent = time.perf_counter() - began, time.process_time() - cpu
    checkpoint_if_due(table, 20)
    table, opened = _opened(folder)
    if table.count() != rows:
        raise SystemExit(f"{table.count()} of {rows} rows are left")
    print(
        f"compaction: {rows:,} rows in {commits} commits and {before} files: {seconds:.1f} s, "
        f"{spent:.1f} s of CPU, {len(results)} commits, {len(table.file_uris())} files; "
        f"opening took {opening * 1000:.0f} ms before and {opened * 1000:.0f} ms after"
    )


def _opened(folder: Path) -> tuple[DeltaTable, float]:
    began = time.perf_counter()
    table = DeltaTable(folder)
    return table, time.perf_counter() - began


if __name__ == "__main__":
    main()
