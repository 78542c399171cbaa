"""How much Spark's consumers fetch: each keeps some of it until its next turn."""

import pytest

from services.writer.spark import fetch_bytes
from services.writer.turns import MOST_READERS


@pytest.mark.parametrize("partitions", [1, 23, 24, 25, 100, MOST_READERS])
def test_what_all_consumers_fetch_fits_the_heap(partitions: int) -> None:
    assert partitions * fetch_bytes(partitions) <= 48 << 20


def test_few_partitions_are_fetched_in_large_pieces() -> None:
    assert fetch_bytes(0) == fetch_bytes(1) == fetch_bytes(24) == 2 << 20
