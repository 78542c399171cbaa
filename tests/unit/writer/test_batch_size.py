"""The batch size follows the time that the last batches took."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.writer.batching.batch_size import BatchSizer


def _after(sizer: BatchSizer, rate: float, batches: int = 30) -> BatchSizer:
    for _ in range(batches):
        sizer.record(sizer.events, sizer.events / rate)
    return sizer


@pytest.mark.parametrize(("rate", "events"), [(40_000.0, 60_000), (500_000.0, 120_000), (100.0, 20_000)])
def test_it_finds_what_fits_within_its_bounds(rate: float, events: int) -> None:
    assert _after(BatchSizer(120_000, 1.5), rate).events == events


def test_it_shrinks_when_the_database_slows_down_and_grows_again() -> None:
    sizer = _after(BatchSizer(120_000, 1.0), 100_000.0)
    assert _after(sizer, 25_000.0, 1).events == 25_000
    assert _after(sizer, 100_000.0).events == 100_000


def test_a_small_batch_that_was_quick_changes_nothing() -> None:
    sizer = _after(BatchSizer(120_000, 1.0), 50_000.0)
    sizer.record(10, 0.1)
    assert sizer.events == 50_000


def test_a_small_batch_that_took_long_is_a_sign() -> None:
    sizer = _after(BatchSizer(120_000, 1.0), 50_000.0)
    sizer.record(45_000, 1.5)
    assert sizer.events == 30_000


def test_a_price_that_every_batch_has_does_not_make_them_smaller_and_smaller() -> None:
    sizer = BatchSizer(120_000, 1.0)
    for _ in range(20):
        sizer.record(min(sizer.events, 1_000), 3.0)
    assert sizer.events == 20_000


@given(st.integers(1, 500), st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 100))))
def test_it_is_never_below_one_nor_above_the_most(most: int, batches: list[tuple[int, float]]) -> None:
    sizer = BatchSizer(most, 1.0)
    for events, seconds in batches:
        sizer.record(events, seconds)
        assert 1 <= sizer.events <= most
