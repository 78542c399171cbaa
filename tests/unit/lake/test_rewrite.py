"""Rewritten files: the same rows, in files of the target's size, with statistics that a reader may trust."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from services.lake.compaction.delta_compact import compact
from services.lake.compaction.delta_rewrite import RowCountError, rewrite
from services.lake.compaction.policy import Policy
from shared.lake.delta_files import DataFile, Partition, read_files
from tests.fixtures.delta_tables import FIRST_DAY, logged_files, receipts, small_files

LATER = datetime(2036, 1, 1, tzinfo=UTC)
DAY = Partition("_date", FIRST_DAY.isoformat())


def test_each_date_is_one_file_afterwards_and_the_null_date_too(tmp_path: Path) -> None:
    days = [FIRST_DAY, date(2026, 1, 2), None]
    table = small_files(str(tmp_path), 17, days=days)
    before = table.to_pyarrow_table().sort_by("_offset")
    results = [*compact(table, Policy(), LATER)]
    assert [([p.value for p in r.partitions], r.files_before, r.files_after) for r in results] == [
        (["2026-01-01", "2026-01-02", None], 51, 3)
    ]
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().sort_by("_offset") == before
    assert receipts(tmp_path) == [(0, offset) for offset in range(170)]
    assert {Path(path).parts[0] for path in logged_files(tmp_path)} == {
        "_date=2026-01-01",
        "_date=2026-01-02",
        "_date=__HIVE_DEFAULT_PARTITION__",
    }
    assert [*compact(DeltaTable(str(tmp_path)), Policy(), LATER)] == []


def test_a_file_ends_at_the_target_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.lake.compaction.delta_rewrite._GROUP_ROWS", 10)
    table = small_files(str(tmp_path), 4)
    new = rewrite(table, DAY, read_files(table)[DAY], target_bytes=1000, closes=False)
    assert len(new.actions) > 1
    assert sum(json.loads(action.stats)["numRecords"] for action in new.actions) == 40
    assert [(tmp_path / action.path).stat().st_size for action in new.actions] == [
        a.size for a in new.actions
    ]


def test_statistics_contain_each_value_of_a_file(tmp_path: Path) -> None:
    table = small_files(str(tmp_path), 4)
    new = rewrite(table, DAY, read_files(table)[DAY], target_bytes=10**9, closes=True)
    (action,) = new.actions
    stats = json.loads(action.stats)
    columns = "min(_offset), max(_offset), min(_id), max(_id), min(p_delay), max(p_delay)"
    query = f"SELECT {columns} FROM read_parquet(?)"  # noqa: S608 - a test's own columns
    with duckdb.connect() as connection:
        values = connection.execute(query, [str(tmp_path / action.path)]).fetchone()
    low, high = stats["minValues"], stats["maxValues"]
    assert values == tuple(each[column] for column in ("_offset", "_id", "p_delay") for each in (low, high))
    assert (low["_timestamp"], high["_timestamp"]) == (
        "2026-01-01T00:00:00.000000Z",
        "2026-01-01T00:00:39.000000Z",
    )
    assert stats["nullCount"]["p_delay"] == 14
    assert "payload" not in low


def test_long_texts_and_columns_of_nulls_have_no_bounds(tmp_path: Path) -> None:
    data = pa.table(
        {"_offset": [1, 2], "text": ["a", "z" * 65], "empty": pa.array([None, None], pa.string())}
    )
    write_deltalake(tmp_path, data)
    write_deltalake(tmp_path, data, mode="append")
    table = DeltaTable(tmp_path)
    new = rewrite(table, Partition(), read_files(table)[Partition()], target_bytes=10**9, closes=False)
    stats = json.loads(new.actions[0].stats)
    assert (list(stats["minValues"]), list(stats["maxValues"])) == (["_offset"], ["_offset"])
    assert stats["nullCount"] == {"_offset": 0, "text": 0, "empty": 4}


def test_a_table_that_names_columns_has_statistics_of_them_alone(tmp_path: Path) -> None:
    named = {"delta.dataSkippingStatsColumns": "_partition,_offset"}
    for _ in range(2):
        data = pa.table({"_partition": [1], "_offset": [2], "p_secret": ["x"]})
        write_deltalake(tmp_path, data, mode="append", configuration=named)
    table = DeltaTable(tmp_path)
    new = rewrite(table, Partition(), read_files(table)[Partition()], target_bytes=10**9, closes=False)
    assert "p_secret" not in new.actions[0].stats
    assert json.loads(new.actions[0].stats)["maxValues"] == {"_partition": 1, "_offset": 2}


def test_a_column_that_older_files_do_not_have_is_null(tmp_path: Path) -> None:
    small_files(str(tmp_path), 2)
    newer = pa.table(
        {
            "_id": ["new"],
            "_partition": pa.array([0], pa.int32()),
            "_offset": [20],
            "p_gate": ["B4"],
            "_date": [FIRST_DAY],
        }
    )
    write_deltalake(tmp_path, newer, mode="append", schema_mode="merge")
    table = DeltaTable(tmp_path)
    before = table.to_pyarrow_table().sort_by("_offset")
    assert [r.files_after for r in compact(table, Policy(min_small_files=2), LATER)] == [1]
    after = DeltaTable(tmp_path).to_pyarrow_table().sort_by("_offset")
    assert after == before
    assert after["p_gate"].to_pylist() == [None] * 20 + ["B4"]


def test_a_file_with_fewer_rows_than_the_log_says_is_not_replaced(tmp_path: Path) -> None:
    table = small_files(str(tmp_path), 2)
    first, second = read_files(table)[DAY]
    wrong = DataFile(first.path, first.bytes, 11, first.added_ms)
    with pytest.raises(RowCountError, match="20 rows were read where the log says 21"):
        rewrite(table, DAY, [wrong, second], target_bytes=10**9, closes=False)
