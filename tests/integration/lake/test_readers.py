"""Tables of the lake as Delta's own Spark reader and Polars see them: the same rows as those of delta-rs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from services.lake.compaction.delta_rounds import Rounds
from services.lake.compaction.metrics import CompactionMetrics
from services.lake.compaction.settings import CompactionSettings
from stack.java import find_java
from stack.services import ROOT
from tests.fixtures.writer import event
from tests.unit.lake.orders import Lake, partitioning

SCHEMA = {
    "properties": {
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "ok": {"type": "boolean"},
        "a.b c": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
    }
}


STAMPS = ("2026-11-21T08:00:00Z", "2026-10-01T00:00:00.123456Z", "1970-01-01T00:00:00Z")


def rows_of_spark(folders: list[Path], columns: list[str]) -> list[list[dict[str, Any]]]:
    """Return the rows of each table, by offset."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": str(find_java().home)}
    command = [sys.executable, "-m", "tests.fixtures.delta_spark", ":".join(map(str, folders)), *columns]
    done = subprocess.run(command, env=env, capture_output=True, check=True, text=True)
    tables = done.stdout.split("\n\n")[:-1]
    rows = [[orjson.loads(line) for line in table.splitlines() if line.startswith("{")] for table in tables]
    return [sorted(each, key=lambda row: int(row["_offset"])) for each in rows]


def compacted(folder: Path, name: str) -> Lake:
    """Return a lake with small files of three months, which are compacted and followed by others."""
    lake = Lake(folder, SCHEMA, **partitioning(name))
    for n in range(6):
        payload = {"n": n, "x": n / 2, "ok": n % 2 == 0, "a.b c": "ü" * n, "at": STAMPS[n % 3]}
        value = event(f"{n}", "flight", **(payload if n else {}))
        lake.land([value.replace(STAMPS[0].encode(), STAMPS[n % 3].encode(), 1)], first=n)
    settings = CompactionSettings(min_small_files=2, checkpoint_commits=3)
    Rounds(lambda: lake.storage, settings, CompactionMetrics(), lambda: False).run({})
    lake.land_flights(range(6, 8))
    return lake


@pytest.mark.full
def test_delta_spark_reads_the_same_rows(tmp_path: Path) -> None:
    lakes = [compacted(tmp_path / name, name) for name in ("day", "month", "none")]
    (named,) = (column for column in lakes[0].rows().column_names if column.startswith("p_a_b_c"))
    columns = ["_id", "_offset", "payload", "p_n", "p_x", "p_ok", named, "_date"]
    tables = rows_of_spark([lake.folder / "flights" for lake in lakes], [*columns, "_timestamp", "p_at"])
    for lake, found in zip(lakes, tables, strict=True):
        expected = [
            {c: str(value) if c == "_date" else value for c, value in row.items() if value is not None}
            for row in lake.rows().select(columns).to_pylist()
        ]
        assert [{c: row[c] for c in columns if c in row} for row in found] == expected
        assert found[1]["_timestamp"] == "2026-10-01 00:00:00.123456"
        assert found[4]["p_at"] == "2026-10-01 00:00:00.123456"


@pytest.mark.full
def test_polars_reads_the_same_rows(tmp_path: Path) -> None:
    import polars as pl  # noqa: PLC0415 - of this test alone

    for name in ("day", "month", "none"):
        lake = compacted(tmp_path / name, name)
        columns = lake.rows().column_names
        found = pl.scan_delta(str(lake.folder / "flights")).select(columns).sort("_offset").collect()
        assert found.to_dicts() == lake.rows().to_pylist()
        one = pl.scan_delta(str(lake.folder / "flights")).filter(pl.col("_offset") == 4)
        assert one.select("p_x", "p_ok").collect().to_dicts() == [{"p_x": 2.0, "p_ok": True}]
