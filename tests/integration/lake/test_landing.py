"""Landing in Delta tables on a real Kafka: columns, starts, partitioning, and rules for bad input."""

import datetime as dt
import threading
from pathlib import Path
from typing import Any

import pytest

from services.lake.task import delta_commit
from shared.errors import LAKE_TABLE_HALTED, LAKE_UNAVAILABLE
from shared.lake.delta_log import owner_of
from shared.registry import Snapshot
from shared.registry.change_log import Chain
from shared.registry.difference import difference
from shared.registry.editor import Editor
from shared.registry.log import MemoryLog
from shared.registry.log_registry import LogRegistry
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.lake import LakeScene, RunningLake
from tests.fixtures.writer import delete_records, delete_topic, event, eventually, make_topics, produce

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


def test_an_empty_registry_of_a_lake_with_tables_was_lost(scene: LakeScene) -> None:
    scene.send(1)
    with scene.running():
        scene.has(1)
    scene.send(1, first=1)
    log = MemoryLog()
    with scene.running(registry=LogRegistry(log), all=True) as lake:
        eventually(lambda: "apply the file again" in lake.status()["trouble"])
        change = difference(Chain(), Snapshot.model_validate(scene.document()))
        Editor(log).write(change, "ada", "it was lost")
        scene.has(2)


def test_a_new_destination_takes_older_events_and_the_other_table_none_twice(scene: LakeScene) -> None:
    scene.send(5)
    with scene.running():
        scene.has(5)
        changed = scene.document()
        other = f"{scene.name}_other"
        changed["event_types"][other] = {"destinations": [{"type": "lake"}], "topic": scene.topic}
        produce(scene.bootstrap, scene.topic, [event(f"o{n}", other) for n in range(3)])
        scene.has(5)
        scene.registry.put(changed)
        scene.has(3, other)
        scene.send(2, first=5)
        scene.has(7)
    scene.has(7)
    scene.has(3, other)


def test_a_destination_that_starts_now_takes_new_events_alone(scene: LakeScene) -> None:
    scene.send(5)
    scene.registry.put(scene.document(lake={"start": "now"}))
    with scene.running() as lake:
        eventually(lambda: scene.topic in lake.status()["topics"])
        eventually(lambda: lake.status()["topics"][scene.topic]["lag_events"] == 0)
        scene.send(2, first=5)
        scene.has(2)
    scene.send(1, first=7)
    with scene.running():
        scene.has(3)


def test_a_route_that_returns_leaves_out_what_has_landed(scene: LakeScene) -> None:
    scene.send(3)
    with scene.running() as lake:
        scene.has(3)
        scene.registry.put({"event_types": {}})
        eventually(lambda: scene.topic not in lake.status()["topics"])
        scene.send(2, first=3)
        scene.registry.put(scene.document())
        scene.has(5)


@pytest.mark.full  # with a Kafka of its own: it reads the topics of all other tests otherwise
def test_with_all_types_an_unregistered_one_lands(own_kafka: HasBootstrap, tmp_path: Path) -> None:
    scene = LakeScene(own_kafka.bootstrap, tmp_path / "lake")
    scene.registry.put({})
    scene.send(2)
    with scene.running(all=True):
        scene.has(2)
    assert not [name for name in scene.rows().column_names if name.startswith("p_")]


def test_a_recreated_topic_is_read_from_its_start(scene: LakeScene) -> None:
    scene.send(3)
    with scene.running():
        scene.has(3)
        delete_topic(scene.bootstrap, scene.topic)
        make_topics(scene.bootstrap, scene.topic, partitions=2)
        scene.send(2)
        eventually(lambda: scene.count() == 5)
    ids = scene.rows()["_id"].to_pylist()
    assert sorted(ids) == sorted(["0-0", "0-1", "0-2", "0-0", "0-1"])


def test_events_that_kafka_has_deleted_are_counted_and_do_not_stop_the_others(scene: LakeScene) -> None:
    scene.send(5)
    with scene.running():
        scene.has(5)
    scene.send(5, first=5)
    delete_records(scene.bootstrap, scene.topic, 0, 8)
    with scene.running() as lake:
        scene.has(7)
    assert metric(lake, "onramp_lake_lost_events_total", topic=scene.topic) == 3


def test_a_halted_table_waits_with_its_topic_while_another_lands(scene: LakeScene) -> None:
    scene.send(3)
    other = LakeScene(scene.bootstrap, scene.folder)
    both = {"event_types": scene.document()["event_types"] | other.document()["event_types"]}
    scene.registry.put(both)
    with scene.running() as lake:
        scene.has(3)
        (scene.folder / scene.name).rename(aside := scene.folder.parent / "aside")
        scene.send(2, first=3)
        other.send(2)
        other.has(2)
        halted = eventually(lambda: lake.status()["tables"][scene.name]["code"])
        assert halted == LAKE_TABLE_HALTED.code
        assert metric(lake, "onramp_lake_table_halted", table=scene.name, code=halted) == 1
        assert lake.status()["topics"][scene.topic]["lag_events"] == 2
        aside.rename(scene.folder / scene.name)
        scene.has(5)
        eventually(lambda: not lake.status()["tables"][scene.name]["code"])
    assert metric(lake, "onramp_lake_table_halted", table=scene.name, code=halted) is None


def test_a_full_disk_delays_and_loses_nothing(scene: LakeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    write = delta_commit._write
    full = threading.Event()
    full.set()

    def write_to_full_disk(*arguments: Any) -> None:
        if full.is_set():
            raise OSError("No space left on device")
        write(*arguments)

    monkeypatch.setattr(delta_commit, "_write", write_to_full_disk)
    scene.send(3)
    with scene.running() as lake:
        eventually(lambda: lake.status()["tables"].get(scene.name, {}).get("code") == LAKE_UNAVAILABLE.code)
        assert scene.count() == 0
        full.clear()
        scene.has(3)


def test_tasks_that_add_different_columns_at_once_land(scene: LakeScene) -> None:
    scene.send(3)
    scene.send(3, partition=1)
    with scene.running(tasks=2) as lake:
        scene.has(6)
        scene.registry.put(
            scene.document(schema={"properties": {"n": {"type": "integer"}, "dest": {"type": "string"}}})
        )
        scene.send(2, first=3, dest="IAH")
        scene.send(2, first=3, partition=1, dest="MIA")
        scene.has(10)
    assert {"p_origin", "p_dest"} <= set(scene.rows().column_names)
    assert lake.status()["tables"][scene.name]["rescued"] == 0


def metric(lake: RunningLake, name: str, **labels: str) -> float | None:
    lake.process.status.metrics.page()  # new counters count from the first page on
    return lake.process.status.metrics.registry.get_sample_value(name, labels)
