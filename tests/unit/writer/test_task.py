"""Tasks: refusals before any work, reported sizes, and rows outside the work order."""

import pyarrow as pa

from services.writer.model.routes import EventRoute, Routes
from services.writer.settle.task import settle
from services.writer.settle.work_order import WorkOrder
from shared.kafka_read.offsets import Range
from tests.fixtures.writer import PARTITION, TOPIC_ID, arrivals, event, read

ROUTES = Routes("onramp", event_routes=(EventRoute("order_placed", "gone"),))


def failures(**order: tuple[str, ...]) -> list[str | None]:
    ranges = {PARTITION: Range(TOPIC_ID, PARTITION, 0, 1)}
    work = WorkOrder(
        epoch=1, ranges=ranges, landing=(), diverted=(), routes=ROUTES, brokers="127.0.0.1:1", **order
    )
    return [report.failure for report in settle(work, read(arrivals([event()])))]


def test_rows_for_a_database_that_neither_lands_nor_waits_are_never_dropped() -> None:
    assert failures() == ["not_configured"]


def test_the_size_that_a_task_reports_is_of_all_that_a_record_brings() -> None:
    batch = arrivals([event()] * 3)
    long = pa.array([b'{"consumer":"%b"}' % (b"x" * 100_000)] * 3)
    batch = batch.set_column(batch.schema.get_field_index("context"), "context", long)
    ranges = {PARTITION: Range(TOPIC_ID, PARTITION, 0, 3)}
    order = WorkOrder(
        epoch=1, ranges=ranges, landing=(), diverted=(), routes=Routes("onramp"), brokers="127.0.0.1:1"
    )
    assert settle(order, read(batch))[0].size >= 300_000


def test_rows_that_are_no_matter_of_an_order_are_left_alone() -> None:
    assert failures(elsewhere=("gone",)) == [None]
