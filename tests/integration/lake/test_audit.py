"""Audit of the lake on a real Kafka: intact tables reconcile, and damage is found by receipt."""

import asyncio
import re
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from services.lake.compaction.delta_compact import compact
from services.lake.compaction.policy import Policy
from services.ops.audit.lake import Lake, audit_lake
from services.ops.findings import Code, Report
from services.ops.kafka_logs import KafkaLogs
from shared.settings import KafkaSettings
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.lake import LakeScene
from tests.fixtures.writer import eventually


@pytest.fixture
def scene(kafka: HasBootstrap, tmp_path: Path) -> LakeScene:
    return LakeScene(kafka.bootstrap, tmp_path / "lake")


def land(scene: LakeScene, *counts: int) -> DeltaTable:
    """Land events in partition 0, with a commit for each count, and 4 in partition 1."""
    scene.send(4, partition=1)
    with scene.running() as lake:
        for number, count in enumerate(counts):
            scene.send(count, first=sum(counts[:number]))
            scene.has(4 + sum(counts[: number + 1]))
        eventually(lambda: lake.status()["topics"][scene.topic]["lag_events"] == 0)
    table = scene.table()
    assert table is not None
    return table


def audit(scene: LakeScene, *, deep: bool = True) -> Report:
    async def run() -> Report:
        report = Report(deep=deep)
        async with KafkaLogs(KafkaSettings(bootstrap=scene.bootstrap).brokers) as logs:
            lake = Lake(scene.storage, scene.registry.snapshot())
            await audit_lake(lake, logs, re.compile(re.escape(scene.topic)), report)
        return report

    return asyncio.run(run())


def findings(scene: LakeScene, *, deep: bool = True) -> list[tuple[Code, str]]:
    return [(finding.code, finding.receipt) for finding in audit(scene, deep=deep).findings]


def test_sound_tables_reconcile_also_after_compaction(scene: LakeScene) -> None:
    table = land(scene, 3, 5)
    report = audit(scene)
    assert (report.findings, report.unchecked) == ([], [])
    assert [(line.partition, line.next_offset, line.landed, line.rows) for line in report.lake] == [
        (0, 8, 8, 8),
        (1, 4, 4, 4),
    ]
    deque(compact(table, Policy(min_small_files=2), datetime.now(UTC)), maxlen=0)
    assert len(table.file_uris()) == 1
    assert findings(scene) == []


def test_a_data_file_that_was_removed_by_hand_is_found_with_its_receipts(scene: LakeScene) -> None:
    table = land(scene, 3, 5)
    assert len(table.file_uris()) > 1
    newest = max(table.file_uris(), key=lambda uri: Path(uri).stat().st_mtime_ns)
    Path(newest).unlink()
    total, lost = findings(scene, deep=False), findings(scene)
    assert total == [(Code.LOST, f"{scene.topic}/0"), (Code.WRONG_TOTAL, f"{scene.topic}/0")]
    assert lost == [*total, *((Code.LOST, f"{scene.topic}/0/{offset}") for offset in range(3, 8))]


def test_a_deleted_row_is_found_by_receipt(scene: LakeScene) -> None:
    land(scene, 5).delete("_partition = 0 AND _offset = 4")
    assert findings(scene) == [
        (Code.WRONG_TOTAL, f"{scene.topic}/0"),
        (Code.LOST, f"{scene.topic}/0/4"),
    ]


def test_a_landed_batch_that_the_table_lost_is_found(scene: LakeScene) -> None:
    table = land(scene, 3, 5)
    version = table.version()
    table.restore(version - 1)
    assert (Code.LOST, f"{scene.topic}/0/7") in findings(scene)


def test_rows_that_landed_twice_are_found_by_receipt(scene: LakeScene) -> None:
    table = land(scene, 2)
    write_deltalake(table, table.to_pyarrow_table(), mode="append")
    assert (Code.DUPLICATE, f"{scene.topic}/1/3") in findings(scene, deep=False)


def test_a_table_without_a_readable_log_is_unchecked(scene: LakeScene) -> None:
    land(scene, 2)
    (scene.folder / scene.name / "_delta_log" / f"{1:020}.json").write_text("{", "utf-8")
    report = audit(scene)
    assert (report.unreadable, report.balanced) == ([f"lake.{scene.name}"], False)
