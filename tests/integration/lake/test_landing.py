"""Landing in Delta tables on a real Kafka: columns, starts, partitioning, and rules for bad input."""

import datetime as dt
from pathlib import Path

import pytest

from shared.lake.delta_log import owner_of
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.lake import LakeScene
from tests.fixtures.writer import eventually

DAY = dt.date(2026, 11, 21)


@pytest.fixture
def scene(kafka: HasBootstrap, tmp_path: Path) -> LakeScene:
    return LakeScene(kafka.bootstrap, tmp_path / "lake")


def test_events_land_once_with_their_columns_and_positions(scene: LakeScene) -> None:
    scene.send(5, origin="EWR")
    scene.send(3, partition=1)
    with scene.running(tasks=2) as lake:
        scene.has(8)
        scene.send(2, first=5, origin="JFK")
        scene.has(10)
        eventually(lambda: lake.status()["topics"][scene.topic]["lag_events"] == 0)
    rows = scene.rows().sort_by([("_partition", "ascending"), ("_offset", "ascending")]).to_pylist()
    assert [row["p_n"] for row in rows] == [*range(7), *range(3)]
    assert {row["p_origin"] for row in rows} == {"EWR", "JFK", None}
    assert {(row["_date"], row["_event_name"], row["_topic"]) for row in rows} == {
        (DAY, scene.name, scene.topic)
    }
    assert rows[0]["payload"] == '{"n":0,"origin":"EWR"}'
    table = scene.table()
    assert table is not None
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
    assert table.protocol().reader_features is None
    assert owner_of(table)
    entry = lake.status()["tables"][scene.name]
    assert (entry["rows"], entry["rescued"]) == (10, 0)
