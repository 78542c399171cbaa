"""Tables of the lake as Delta's own Spark reader sees them: the same rows as those of delta-rs."""

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


def rows_of_spark(folder: Path, columns: list[str]) -> list[dict[str, Any]]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": str(find_java().home)}
    command = [sys.executable, "-m", "tests.fixtures.delta_spark", str(folder), *columns]
    done = subprocess.run(command, env=env, capture_output=True, check=True)
    return [orjson.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]


@pytest.mark.full
@pytest.mark.parametrize("name", ["day", "month", "none"])
def test_delta_spark_reads_the_same_rows(tmp_path: Path, name: str) -> None:
    lake = Lake(tmp_path, SCHEMA, **partitioning(name))
    stamps = ["2026-11-21T08:00:00Z", "2026-10-01T00:00:00.123456Z", "1970-01-01T00:00:00Z"]
    for n in range(6):
        payload = {"n": n, "x": n / 2, "ok": n % 2 == 0, "a.b c": "ü" * n, "at": stamps[n % 3]}
        value = event(f"{n}", "flight", **(payload if n else {}))
        value = value.replace(b"2026-11-21T08:00:00Z", stamps[n % 3].encode(), 1)
        lake.land([value], first=n)
    settings = CompactionSettings(min_small_files=2, checkpoint_commits=3)
    Rounds(lambda: lake.storage, settings, CompactionMetrics(), lambda: False).run({})
    lake.land_flights(range(6, 8))
    texts = ["_id", "_offset", "payload", "p_n", "p_x", "p_ok", *_named(lake, "p_a_b_c"), "_date"]
    expected = [
        {
            column: str(value) if column == "_date" else value
            for column, value in row.items()
            if value is not None
        }
        for row in lake.rows().select(texts).to_pylist()
    ]
    found = rows_of_spark(lake.folder / "flights", [*texts, "_timestamp", "p_at"])
    found.sort(key=lambda row: row["_offset"])
    assert [{c: row[c] for c in texts if c in row} for row in found] == expected
    assert found[1]["_timestamp"] == "2026-10-01 00:00:00.123456"
    assert found[4]["p_at"] == "2026-10-01 00:00:00.123456"


def _named(lake: Lake, prefix: str) -> list[str]:
    return [column for column in lake.rows().column_names if column.startswith(prefix)]
