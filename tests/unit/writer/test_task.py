"""What a task refuses before it touches anything."""

from services.writer.orders import WorkOrder
from services.writer.ranges import Range
from services.writer.routes import EventRoute, Routes
from services.writer.task import settle
from tests.fixtures.writer import PARTITION, TOPIC_ID, arrivals, event

ROUTES = Routes("onramp", event_routes=(EventRoute("order_placed", "gone"),))


def failures(**order: tuple[str, ...]) -> list[str | None]:
    ranges = {PARTITION: Range(TOPIC_ID, PARTITION, 0, 1)}
    work = WorkOrder(1, ranges, (), (), ROUTES, "127.0.0.1:1", **order)
    (report,) = settle(work, iter([arrivals([event()])]))
    return [line["failure"] for line in report.to_pylist()]


def test_f45_rows_for_a_database_that_neither_lands_nor_waits_are_never_dropped() -> None:
    assert failures() == ["not_configured"]


def test_rows_that_are_no_matter_of_an_order_are_left_alone() -> None:
    assert failures(elsewhere=("gone",)) == [None]
