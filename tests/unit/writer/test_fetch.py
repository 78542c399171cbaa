"""How much Spark's consumers fetch: each keeps some of it until its next turn."""

from types import SimpleNamespace
from typing import Any

import pytest

from services.writer.driver.spark import Spark, fetch_bytes
from services.writer.model.offsets import Partition, Range
from services.writer.model.routes import Routes
from services.writer.plan.fair_share import MOST_READERS
from services.writer.settle.work_order import WorkOrder


@pytest.mark.parametrize("partitions", [1, 23, 24, 25, 100, MOST_READERS])
def test_what_all_consumers_fetch_fits_the_heap(partitions: int) -> None:
    assert partitions * fetch_bytes(partitions) <= 48 << 20


def test_few_partitions_are_fetched_in_large_pieces() -> None:
    assert fetch_bytes(0) == fetch_bytes(1) == fetch_bytes(24) == 2 << 20


class Frame:
    """As much of a DataFrame as a job asks for."""

    def coalesce(self, _: int) -> "Frame":
        return self

    def mapInArrow(self, *_: object) -> "Frame":  # noqa: N802 - Spark's name
        return self

    def collect(self) -> list[Any]:
        return []


def test_a_batch_that_the_driver_did_not_get_is_read_by_no_more_consumers_than_there_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs: list[dict[Partition, Range]] = []

    def read(_: Spark, ranges: list[Range]) -> Frame:
        jobs.append({r.partition: r for r in ranges})
        return Frame()

    monkeypatch.setattr(Spark, "_read", read)
    spark = Spark.__new__(Spark)  # without its JVM
    spark._session = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    ranges = {
        p: Range("id", p, 0, 2) for p in (Partition("events.e", n) for n in range(2 * MOST_READERS + 1))
    }
    assert spark.run(WorkOrder(1, ranges, (), (), Routes("onramp"), "")) == []
    assert [len(job) for job in jobs] == [MOST_READERS, MOST_READERS, 1]
    assert {p: r for job in jobs for p, r in job.items()} == ranges
