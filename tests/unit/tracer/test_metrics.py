"""The first tracer of each result is an increase for Prometheus."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from services.tracer.metrics import TracerMetrics
from services.tracer.results import Change, Destination, Result, Tracer, Watch
from shared import new_counters

HERE = Destination("onramp", "events.onramp_probe")


def change(result: Result) -> Change:
    return Change(Tracer("t", "single@gateway", 1000.0, {HERE: Watch(result)}, 1000.1), HERE, result)


def shown(metrics: TracerMetrics) -> dict[str, float]:
    families = text_string_to_metric_families(metrics.page().decode())
    samples = (sample for family in families for sample in family.samples)
    return {s.labels["result"]: s.value for s in samples if s.name == "onramp_tracer_results_total"}


def test_a_new_result_is_at_0_first_and_reading_does_not_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(new_counters.time, "monotonic", lambda: now[0])
    metrics = TracerMetrics(new_counter_seconds=60.0)
    metrics.count([change(Result.LOST)])
    now[0] += 30.0
    metrics.count([change(Result.LOST), change(Result.LATE)])
    assert [shown(metrics) for _ in range(3)] == [{"lost": 0, "late": 0}] * 3
    now[0] += 30.0
    assert shown(metrics) == {"lost": 2, "late": 0}
    metrics.count([change(Result.LOST)])
    assert shown(metrics) == {"lost": 3, "late": 0}
