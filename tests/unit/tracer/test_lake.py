"""Tracers in the lake: their rows in a Delta table, and the result of those that are not there."""

import asyncio
from pathlib import Path

import pytest

from services.tracer.journal import Journal
from services.tracer.lake_rows import LakeRows
from services.tracer.metrics import TracerMetrics
from services.tracer.results import Destination, Limits, Result, Tracer, Watch, evaluate
from services.tracer.rounds import Rounds
from shared.errors import InfrastructureError
from tests.fixtures.delta_tables import silent_storage
from tests.unit.lake.orders import Lake

LAKE = Destination.in_lake("onramp_probe")
HERE = Destination("onramp", "events.onramp_probe")
SENT = 1_000_000_000.0


def tracer() -> Tracer:
    return Tracer("t", "single@gateway", SENT, {HERE: Watch(), LAKE: Watch()}, SENT)


def results_at(
    sent: Tracer, seconds: float, rows: int = 0, *, lake_seconds: float | None = 300, down: bool = False
) -> tuple[Result, Result]:
    unavailable = {str(LAKE)} if down else set[str]()
    limits = Limits(late=30, lost=600)
    list(
        evaluate(sent, {HERE: 1, LAKE: rows}, unavailable, SENT + seconds, limits, lake_seconds=lake_seconds)
    )
    return sent.watches[HERE].result, sent.watches[LAKE].result


@pytest.mark.parametrize(
    ("seconds", "rows", "result"),
    [
        (60, 0, Result.IN_FLIGHT),
        (60, 1, Result.LANDED),
        (301, 0, Result.NOT_IN_LAKE),
        (301, 1, Result.LATE),
        (60, 2, Result.DUPLICATE),
    ],
)
def test_a_tracer_has_a_result_in_the_lake_of_its_own(seconds: float, rows: int, result: Result) -> None:
    assert results_at(tracer(), seconds, rows)[1] is result


def test_a_tracer_that_is_not_in_the_lake_may_still_land() -> None:
    sent = tracer()
    assert results_at(sent, 301) == (Result.LATE, Result.NOT_IN_LAKE)
    assert results_at(sent, 400, rows=1)[1] is Result.LATE


def test_a_lake_that_was_not_read_says_nothing() -> None:
    assert results_at(tracer(), 301, lake_seconds=None)[1] is Result.IN_FLIGHT
    assert results_at(tracer(), 301, down=True)[1] is Result.WAITING


def test_a_database_named_lake_that_cannot_be_read_hides_no_row_of_the_lake(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.land_flights(range(1))
    rows = LakeRows(lake.storage, "flights")
    database = Destination("lake", "events.onramp_probe")
    sent = Tracer("0-0", "single@gateway", SENT, {database: Watch(), rows.destination: Watch()}, SENT)
    journal = Journal.open(tmp_path / "tracers.jsonl", SENT)
    journal.add([sent])
    rounds = Rounds(
        entrances=[],
        packets=None,
        databases=[],
        lake=rows,
        lake_seconds=300,
        writers=[],
        journal=journal,
        metrics=TracerMetrics(),
        limits=Limits(30, 600),
        interval=10,
        clock=lambda: SENT + 60,
    )
    asyncio.run(rounds.poll())
    journal.close()
    assert [watch.result for watch in sent.watches.values()] == [Result.WAITING, Result.LANDED]


def test_rows_are_counted_by_id(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.land_flights(range(3))
    rows = LakeRows(lake.storage, "flights")
    assert rows.count(["0-1", "0-2", "0-9"], SENT) == {
        (Destination.in_lake("flights"), "0-1"): 1,
        (Destination.in_lake("flights"), "0-2"): 1,
    }
    assert rows.count(["0-1"], SENT + 1e9) == {}
    assert LakeRows(lake.storage, "elsewhere").count(["0-1"], SENT) == {}


def test_a_storage_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.land_flights(range(1))
    (tmp_path / "flights" / "_delta_log" / f"{1:020}.json").write_text("{", "utf-8")
    with pytest.raises(InfrastructureError, match="table flights of the lake: "):
        LakeRows(lake.storage, "flights").count(["0-1"], SENT)


def test_a_storage_that_hangs_ends_a_reading() -> None:
    with silent_storage() as storage:
        rows = LakeRows(storage, "flights", 0.05)
        for _ in range(3):  # the first one still hangs
            with pytest.raises(InfrastructureError, match=r"no answer in 0.05 s"):
                rows.count(["a"], SENT)
