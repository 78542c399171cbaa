"""The state of the lake service, also while a batch hangs."""

import orjson
import pytest

from services.lake.observe.status import LakeStatus
from services.lake.task.order import LakeReport, RangeReport, TableReport
from services.lake.waits import Wait
from shared import new_counters
from shared.errors import LAKE_TABLE_HALTED
from shared.kafka_read.offsets import Partition

P = Partition("events.flight", 0)


def sample(status: LakeStatus, name: str, **labels: str) -> float | None:
    return status.metrics.registry.get_sample_value(f"onramp_lake_{name}", labels)


def test_the_age_of_a_running_batch_grows_without_the_driver() -> None:
    status = LakeStatus()
    assert sample(status, "batch_running_seconds") == 0
    with status.batch():
        first = sample(status, "batch_running_seconds")
        second = sample(status, "batch_running_seconds")
        assert first is not None
        assert second is not None
        assert 0 < first < second
    assert sample(status, "batch_running_seconds") == 0
    with pytest.raises(OSError, match="gone"), status.batch():
        raise OSError("gone")
    assert sample(status, "batch_running_seconds") == 0


def test_a_halted_table_is_shown_until_it_continues() -> None:
    status = LakeStatus()
    wait = Wait("flights", LAKE_TABLE_HALTED.code, "restored", 0.0)
    status.show({P: 9}, {P: 4}, {P: wait}, {P.topic: 3})
    labels = {"table": "flights", "code": LAKE_TABLE_HALTED.code}
    assert sample(status, "table_halted", **labels) == 1
    assert sample(status, "lag_events", topic=P.topic) == 5
    status.metrics.page()
    assert sample(status, "lost_events_total", topic=P.topic) == 3
    shown = orjson.loads(status.document())
    assert shown["tables"]["flights"]["reason"] == "restored"
    assert shown["topics"][P.topic]["waiting"] == {"0": "restored"}
    status.show({P: 9}, {P: 9}, {}, {})
    assert sample(status, "table_halted", **labels) is None
    assert sample(status, "lost_events_total", topic=P.topic) == 3


def test_events_lost_before_the_start_are_an_increase_for_prometheus(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(new_counters.time, "monotonic", lambda: now[0])
    status = LakeStatus(new_counter_seconds=60.0)
    line = b'onramp_lake_lost_events_total{topic="events.flight"} '
    status.show({P: 9}, {P: 4}, {}, {P.topic: 3})
    for _ in range(2):
        assert line + b"0.0\n" in status.metrics.page()
    now[0] += 61
    assert line + b"3.0\n" in status.metrics.page()


def test_outcomes_are_counted_by_table_and_topic() -> None:
    status = LakeStatus()
    table = TableReport("flights", rows=5, commits=1, refused=2, rescued=3, repeated=1)
    status.count([LakeReport([table], [RangeReport(P, read=7, filtered=2)])] * 2)
    names = ("rows", "commits", "refused_commits", "rescued_values", "repeated_rows")
    assert [sample(status, f"{name}_total", table="flights") for name in names] == [10, 2, 4, 6, 2]
    assert sample(status, "filtered_records_total", topic=P.topic) == 4
