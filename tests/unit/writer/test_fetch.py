"""How much Spark's consumers fetch: each keeps some of it until its next turn."""

import pytest

from services.writer.orders import WorkOrder
from services.writer.ranges import Partition, Range
from services.writer.routes import Routes
from services.writer.spark import fetch_bytes, pieces
from services.writer.turns import MOST_READERS


@pytest.mark.parametrize("partitions", [1, 23, 24, 25, 100, MOST_READERS])
def test_what_all_consumers_fetch_fits_the_heap(partitions: int) -> None:
    assert partitions * fetch_bytes(partitions) <= 48 << 20


def test_few_partitions_are_fetched_in_large_pieces() -> None:
    assert fetch_bytes(0) == fetch_bytes(1) == fetch_bytes(24) == 2 << 20


def test_a_batch_that_the_driver_did_not_get_is_read_by_no_more_consumers_than_there_may_be() -> None:
    ranges = {
        p: Range("id", p, 0, 2) for p in (Partition("events.e", n) for n in range(2 * MOST_READERS + 1))
    }
    found = list(pieces(WorkOrder(1, ranges, (), (), Routes("onramp"), "")))
    assert [len(order.ranges) for order in found] == [MOST_READERS, MOST_READERS, 1]
    assert {p: r for order in found for p, r in order.ranges.items()} == ranges
