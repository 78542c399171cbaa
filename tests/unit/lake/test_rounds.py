"""Rounds over the lake's tables: a damaged or foreign table delays no other."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from services.lake.compaction import delta_rounds
from services.lake.compaction.delta_maintain import checkpoint_version
from services.lake.compaction.delta_rounds import Rounds
from services.lake.compaction.metrics import CompactionMetrics
from services.lake.compaction.settings import CompactionSettings
from shared.lake.storage import Storage
from tests.fixtures.delta_tables import logged_files, receipts, small_files

ROWS = [(0, offset) for offset in range(40)]


def rounds(folder: Path, metrics: CompactionMetrics | None = None) -> Rounds:
    settings = CompactionSettings(min_small_files=4, checkpoint_commits=5, confirm_seconds=0)
    storage = Storage(url=str(folder))
    return Rounds(lambda: storage, settings, metrics or CompactionMetrics(), lambda: False)


def value(metrics: CompactionMetrics, name: str, table: str) -> float | None:
    return metrics.registry.get_sample_value(f"onramp_lake_compaction_{name}", {"table": table})


def test_a_round_compacts_each_table_and_shows_its_files(tmp_path: Path) -> None:
    for name in ("flights", "trains"):
        small_files(str(tmp_path / name), 4)
    metrics = CompactionMetrics()
    rounds(tmp_path, metrics).run({})
    for name in ("flights", "trains"):
        assert len(logged_files(tmp_path / name)) == 1
        assert receipts(tmp_path / name) == ROWS
        assert [value(metrics, each, name) for each in ("files", "small_files", "rewritten_files_total")] == [
            1,
            1,
            4,
        ]
        assert (tmp_path / name / "_delta_log" / "_last_checkpoint").exists()


def test_a_damaged_table_delays_no_other(tmp_path: Path) -> None:
    for name in ("flights", "trains"):
        small_files(str(tmp_path / name), 4)
    (tmp_path / "flights" / "_delta_log" / f"{2:020}.json").write_text("{", "utf-8")
    metrics = CompactionMetrics()
    each_round = rounds(tmp_path, metrics)
    each_round.run({})
    assert receipts(tmp_path / "trains") == ROWS
    assert len(logged_files(tmp_path / "trains")) == 1
    assert value(metrics, "failures_total", "flights") == 1
    assert (each_round.status["trains"].rows, each_round.status["trains"].error) == (40, "")
    assert each_round.status["flights"].error


@pytest.mark.parametrize("damage", ["", "{", "\0"])
def test_a_damaged_name_of_the_last_checkpoint_is_replaced(tmp_path: Path, damage: str) -> None:
    for name in ("flights", "trains"):
        small_files(str(tmp_path / name), 4)
    (tmp_path / "flights" / "_delta_log" / "_last_checkpoint").write_text(damage, "utf-8")
    each_round = rounds(tmp_path)
    each_round.run({})
    assert checkpoint_version(DeltaTable(tmp_path / "flights")) is not None
    assert [each_round.status[name].error for name in ("flights", "trains")] == ["", ""]


def test_an_unforeseen_error_of_a_table_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("flights", "trains"):
        small_files(str(tmp_path / name), 4)

    def fail_once(*_: object) -> list[str]:
        monkeypatch.undo()
        raise KeyError("unforeseen")

    monkeypatch.setattr(delta_rounds, "vacuum", fail_once)
    each_round = rounds(tmp_path)
    each_round.run({})
    assert [each_round.status[name].error for name in ("flights", "trains")] == ["'unforeseen'", ""]


def test_a_table_of_another_program_stays_as_it_is(tmp_path: Path) -> None:
    for _ in range(4):
        write_deltalake(tmp_path / "foreign", pa.table({"x": [1]}), mode="append")
    rounds(tmp_path).run({"foreign": 1})
    assert DeltaTable(tmp_path / "foreign").version() == 3


def test_expired_dates_are_dropped_in_a_later_round(tmp_path: Path) -> None:
    small_files(str(tmp_path / "flights"), 2, days=[date(2020, 1, 1), None])
    metrics = CompactionMetrics()
    each_round = rounds(tmp_path, metrics)
    for keep_days in ({"flights": 400}, {}, {"flights": 400}):  # the second forgets the first
        each_round.run(keep_days)
        assert len(receipts(tmp_path / "flights")) == 20
    each_round.run({"flights": 400})
    assert value(metrics, "dropped_rows_total", "flights") == 10
    assert receipts(tmp_path / "flights") == [(0, offset) for offset in range(1, 20, 2)]


def test_a_lake_without_a_folder_has_no_tables(tmp_path: Path) -> None:
    rounds(tmp_path / "absent").run({})
    assert not (tmp_path / "absent").exists()
