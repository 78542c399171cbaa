"""Ten kills, an outage of the storage, and compaction at the same time: each event is in its table once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.lake.compaction.delta_rounds import Rounds
from services.lake.compaction.metrics import CompactionMetrics
from services.lake.compaction.settings import CompactionSettings
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.lake import LakeScene
from tests.fixtures.writer import eventually

STEPS = ("planned", "before_commit", "committed", "landed", "settled")


@contextmanager
def compacting(scene: LakeScene) -> Iterator[CompactionMetrics]:
    """Compact the scene's tables again and again, as soon as a date has two small files."""
    stop, metrics = threading.Event(), CompactionMetrics()
    settings = CompactionSettings(min_small_files=2, checkpoint_commits=5)
    rounds = Rounds(lambda: scene.storage, settings, metrics, stop.is_set)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            while not stop.wait(0.05):
                rounds.run({})
        except Exception as e:  # noqa: BLE001 - raised below, in the test's thread
            errors.append(e)

    thread = threading.Thread(target=run, name="compaction")
    thread.start()
    try:
        yield metrics
    finally:
        stop.set()
        thread.join(60)
    assert errors == []


@pytest.mark.full
def test_kills_an_outage_and_compaction_lose_and_double_nothing(kafka: HasBootstrap, tmp_path: Path) -> None:
    scene = LakeScene(kafka.bootstrap, tmp_path / "lake")
    scene.folder.mkdir()
    with compacting(scene) as metrics:
        for n in range(10):
            for partition in (0, 1):
                scene.send(20, first=20 * n, partition=partition)
            with scene.program(f"lake.{STEPS[n % len(STEPS)]}=kill") as driver:
                assert driver.wait(60) == -9
        with scene.running() as lake:
            scene.has(400)
            scene.folder.rename(away := tmp_path / "away")
            scene.send(20, first=200)
            eventually(lambda: lake.status()["tables"][scene.name]["code"])
            away.rename(scene.folder)
            scene.has(420)
            rewritten = {"table": scene.name}
            eventually(
                lambda: metrics.registry.get_sample_value(
                    "onramp_lake_compaction_rewritten_files_total", rewritten
                )
            )
    scene.has(420)
    assert sorted(scene.rows()["p_n"].to_pylist()) == sorted([*range(220), *range(200)])
