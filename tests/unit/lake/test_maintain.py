"""Checkpoints and vacuum: identifiers survive, and no file that a reader or a writer needs is deleted."""

import os
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from services.lake.compaction.delta_compact import compact
from services.lake.compaction.delta_maintain import (
    checkpoint_if_due,
    checkpoint_version,
    unreferenced,
    vacuum,
)
from services.lake.compaction.policy import Policy
from shared.lake.transactions import landed_id, position_id
from tests.fixtures.delta_tables import TOPIC_ID, receipts, small_files

WEEK = 7 * 24
LATER = datetime(2036, 1, 1, tzinfo=UTC)


def compacted(folder: Path) -> DeltaTable:
    table = small_files(str(folder), 17)
    deque(compact(table, Policy(), LATER), maxlen=0)
    return table


def test_a_checkpoint_is_written_every_twenty_commits(tmp_path: Path) -> None:
    table = small_files(str(tmp_path), 18)  # its creation is a commit too
    assert not checkpoint_if_due(table, 20)
    assert checkpoint_version(table) is None
    table = small_files(str(tmp_path), 19)
    assert checkpoint_if_due(table, 20)
    assert checkpoint_version(table) == 19
    assert not checkpoint_if_due(small_files(str(tmp_path), 38), 20)
    assert checkpoint_if_due(small_files(str(tmp_path), 39), 20)


def test_a_table_opens_from_its_checkpoint_alone_with_its_positions(tmp_path: Path) -> None:
    table = compacted(tmp_path)
    assert checkpoint_if_due(table, 1)
    for entry in (tmp_path / "_delta_log").glob("*.json"):
        entry.unlink()
    table = DeltaTable(str(tmp_path))
    assert (table.count(), len(table.file_uris())) == (170, 1)
    assert table.transaction_version(position_id(TOPIC_ID, 0)) == 170
    assert table.transaction_version(landed_id(TOPIC_ID, 0)) == 170


def test_vacuum_waits_a_week_from_the_removal_however_old_the_file_is(tmp_path: Path) -> None:
    table = small_files(str(tmp_path), 17)
    for uri in table.file_uris():
        os.utime(uri, (1, 1))
    deque(compact(table, Policy(), LATER), maxlen=0)
    assert vacuum(table, WEEK) == []
    with duckdb.connect() as connection:
        files = [str(path) for path in tmp_path.rglob("part-*.parquet")]
        assert connection.execute("SELECT count(*) FROM read_parquet(?)", [files]).fetchone() == (170,)


def test_vacuum_deletes_old_files_of_onramp_without_a_reference_and_no_foreign_file(tmp_path: Path) -> None:
    table = compacted(tmp_path)
    folder = next(tmp_path.glob("_date=*"))
    orphan = folder / "compacted-0b0e7ff3-7d5e-4bd7-a1a4-6a7bb3c7dfb0.zstd.parquet"
    fresh = folder / "part-00000-1b0e7ff3-7d5e-4bd7-a1a4-6a7bb3c7dfb0-c000.snappy.parquet"
    foreign = folder / "notes.parquet"
    for file in (orphan, fresh, foreign):
        file.write_bytes(b"")
    for file in (orphan, foreign):
        os.utime(file, (1, 1))
    name = lambda path: path.rsplit("/", 1)[-1]  # noqa: E731
    own, others = unreferenced(table, WEEK)
    assert ([*map(name, own)], [*map(name, others)]) == ([orphan.name], [foreign.name])
    vacuum(table, WEEK)
    assert (orphan.exists(), fresh.exists(), foreign.exists()) == (False, True, True)
    assert receipts(tmp_path) == [(0, offset) for offset in range(170)]
