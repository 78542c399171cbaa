"""Slower benchmark figures are flagged only if the change exceeds the noise."""

import pytest

from loadtest.bench import latency_figures, load_figures, page, writer_figures
from loadtest.figures import LESS, MORE, Figure, compare, range_of


def figure(values: list[float], better: str = LESS, limit: list[float] | None = None) -> Figure:
    return Figure("x", "ms", better, values, limit or [])


@pytest.mark.parametrize(
    ("before", "after", "better", "slower"),
    [
        ([10, 11, 12], [13, 14, 15], LESS, True),
        ([10, 11, 12], [12, 14, 15], LESS, False),  # the ranges touch
        ([10, 11, 12], [7, 8, 9], LESS, False),
        ([10, 11, 12], [7, 8, 9], MORE, True),
        ([100, 100, 100], [102, 102, 102], LESS, False),  # narrow, and as good as the same
        ([100], [120], LESS, False),  # once is no range
        ([100], [130], LESS, True),
        ([100], [70], MORE, True),
        ([100, 101], [130], LESS, True),
    ],
)
def test_slower_is_beyond_the_noise(
    before: list[float], after: list[float], better: str, *, slower: bool
) -> None:
    (change,) = compare([figure(before, better)], [figure(after, better)], same_machine=True)
    assert change.slower is slower


def test_a_figure_with_a_limit_is_compared_as_a_ratio() -> None:
    # Twice as slow on a machine that is twice as slow: no change.
    before, after = figure([10, 11], limit=[1, 1]), figure([20, 22], limit=[2, 2])
    (change,) = compare([before], [after], same_machine=True)
    assert not change.slower
    assert change.factor == pytest.approx(1)


def test_figures_of_another_machine_are_compared_only_as_ratios() -> None:
    assert compare([figure([10])], [figure([99])], same_machine=False) == []
    (change,) = compare([figure([10], limit=[1])], [figure([99], limit=[1])], same_machine=False)
    assert change.slower


def test_a_new_figure_is_compared_with_nothing() -> None:
    assert compare([], [figure([1])], same_machine=True) == []


def test_ranges_are_short() -> None:
    assert range_of([1234.5, 1300.1]) == "1,234 to 1,300"
    assert range_of([0.5]) == "0.5"
    assert range_of([]) == ""


WRITER = {"copy_rows_per_s": [90, 100, 110], "warm_rows_per_s": 50, "cold_start_s": 7.5}
LATENCY = {
    "warm_request_ms": {"p50": 3, "p99": 20},
    "warm_request_to_row_ms": {"p50": 100, "p99": 240},
    "new_name_request_to_row_ms": None,
    "cold_request_to_row_ms": {"p50": 900, "p99": 5000},
}


def test_figures_are_read_from_the_benches_files() -> None:
    rate, cold = writer_figures([WRITER, WRITER])
    assert (rate.ratio, cold.values) == ([0.5, 0.5], [7.5, 7.5])
    found = {f.name: f.values for f in latency_figures([LATENCY, LATENCY])}
    assert len(found) == 6
    assert found["latency, request to row, warm: p99"] == [240, 240]
    run = {
        "shape": "steady",
        "end_to_end_per_minute": 59_000,
        "offered_per_minute": 60_000,
        "request_ms": {"p99": 20.0},
        "request_to_row_ms": None,
        "processes": {"kafka": {"us_per_packet": 10.0}, "gateway": {"us_per_packet": 5.0}},
    }
    assert [f.values for f in load_figures([run])] == [[59_000], [20.0], [15.0]]
    stood = run | {"stand_still": {"due_s": 0.7}}
    assert {f.name: f.values for f in load_figures([stood])}["load, steady: longest stand-still of rows"] == [
        0.7
    ]


def test_the_page_names_what_got_slower() -> None:
    told = {
        "at": "now",
        "command": "c",
        "machine": "m",
        "load_average_before": 0.1,
        "versions": {"onramp": "1"},
        "failed": ["latency"],
    }
    changes = compare([figure([10])], [figure([20])], same_machine=True)
    text = page(told, [figure([20])], told, changes)
    assert "**SLOWER** x: 10.0 before, 20.0 now (2.00 times)" in text
    assert "**FAILED**: latency." in text
    assert "There was none." in page(told, [figure([20])], {}, [])
