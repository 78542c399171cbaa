"""Metrics of Spark's JVM are shown as reported; a JVM that ends or hangs stops no later reading."""

import os
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from services.writer.driver.spark import Spark
from services.writer.driver.spark_watch import SparkWatch
from services.writer.observe.status import Status
from services.writer.settle import task
from services.writer.settle.work_order import TaskReport
from shared.kafka_read.offsets import Partition
from shared.spark.jvm_usage import JvmUsage
from tests.fixtures.writer import eventually
from tests.unit.writer.test_metrics import page

_OFTEN = 0.001


def used(runs: int, seconds: float, heap: int = 5) -> JvmUsage:
    return JvmUsage(
        pid=os.getpid(), slots=2, heap_bytes=heap, max_heap_bytes=100, collections={"Copy": (runs, seconds)}
    )


class Answers:
    """A Spark whose answers come one after the other, and then the last one again."""

    def __init__(self, *answers: JvmUsage | Exception | None) -> None:
        self._answers = list(answers)
        self.asked = 0

    def usage(self) -> JvmUsage | None:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def watches() -> Iterator[list[SparkWatch]]:
    started: list[SparkWatch] = []
    yield started
    for each in started:
        each.stop()
        each._thread.join(60)


def watched(spark: Any, watches: list[SparkWatch]) -> Status:
    status = Status()
    watch = SparkWatch(spark, status.metrics, _OFTEN)
    watches.append(watch)
    watch.start()
    return status


def test_heap_slots_and_collections_are_shown_as_they_are(watches: list[SparkWatch]) -> None:
    spark = Answers(used(3, 0.5), used(3, 0.5), used(5, 0.75, heap=7))
    status = watched(spark, watches)
    eventually(lambda: spark.asked > 5)
    shown = page(status)
    assert shown["onramp_writer_jvm_heap_bytes"] == 7
    assert shown["onramp_writer_jvm_heap_limit_bytes"] == 100
    assert shown["onramp_writer_slots"] == 2
    assert shown['onramp_writer_jvm_collections_total{collector="Copy"}'] == 5
    assert shown['onramp_writer_jvm_collection_seconds_total{collector="Copy"}'] == 0.75
    assert shown['onramp_processes{process="jvm"}'] == 1


def test_a_reading_that_fails_is_not_the_last(watches: list[SparkWatch]) -> None:
    status = watched(Answers(ZeroDivisionError(), None, used(1, 0.5)), watches)
    eventually(lambda: page(status)["onramp_writer_jvm_heap_bytes"] == 5)


def test_a_jvm_that_hangs_holds_up_no_page_and_no_stop(watches: list[SparkWatch]) -> None:
    hangs, asked = threading.Event(), threading.Event()

    def usage() -> None:
        asked.set()
        assert hangs.wait(60)

    status = watched(SimpleNamespace(usage=usage), watches)
    try:
        assert asked.wait(60)
        assert page(status)["onramp_writer_jvm_heap_bytes"] == 0
        watches[0].stop()
        assert watches[0]._thread.daemon
    finally:
        hangs.set()


def test_a_reading_that_fails_because_spark_was_stopped_is_no_error(
    watches: list[SparkWatch], caplog: pytest.LogCaptureFixture
) -> None:
    asked, stopped = threading.Event(), threading.Event()

    def usage() -> None:
        asked.set()
        assert stopped.wait(60)
        raise KeyError("its context is gone")

    watched(SimpleNamespace(usage=usage), watches)
    assert asked.wait(60)
    watches[0].stop()
    stopped.set()
    watches[0]._thread.join(60)
    assert caplog.records == []


@pytest.mark.parametrize("error", [Py4JError("it is gone"), ConnectionRefusedError()])
def test_a_jvm_that_is_gone_uses_nothing(error: Exception) -> None:
    class Gone:
        @property
        def _jvm(self) -> Any:
            raise error

    spark = Spark.__new__(Spark)
    spark._context = Gone()  # type: ignore[assignment]
    assert spark.usage() is None


def test_the_time_for_which_tasks_had_slots_is_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 12.5])
    monkeypatch.setattr(task.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(task, "settle", lambda *_: [TaskReport("a", 0), TaskReport("a", 1)])
    monkeypatch.setattr(task, "_reader_of", lambda _: SimpleNamespace(read=lambda _: iter(())))
    order: Any = SimpleNamespace(ranges={Partition("a", 0): None}, brokers=None)
    reports = task.settle_share(order, [[Partition("a", 0)]], iter([0]))
    assert [report.slot_seconds for report in reports] == [2.5, 0]
    monkeypatch.undo()
    status = Status()
    for _ in range(2):
        status.update_steps(reports)
    assert page(status)["onramp_writer_slot_seconds_total"] == 5
