"""Each part of the bench of sources, small, on one stack that is real in all of it."""

from collections.abc import Iterator

import pytest

from loadtest.bench_cdc import arguments
from loadtest.cdc_parts import PARTS
from loadtest.cdc_stack import STEADY, CdcStack, cdc_stack
from loadtest.same_rows import differing
from tests.fixtures.fix_postgres import FAST

pytestmark = pytest.mark.full

RATE, SECONDS, ROWS = 40, 2, 2_000
SMALL = arguments(
    [
        *(
            "--rate",
            str(RATE),
            "--seconds",
            str(SECONDS),
            "--crashes",
            "1",
            "--backlog-tables",
            "2",
            "--settle",
            "0",
        ),
        *("--transaction", str(ROWS), "--backlog", str(8 * ROWS), "--snapshot", str(ROWS)),
    ]
)
#: What each part's tables have in the end, with the row that says that a table flows.
MIN = {
    "latency-1": 1,
    "latency-20": 20,
    "transaction": ROWS + 1,
    "backlog": 6 * ROWS + 2,
    "snapshot": ROWS,
    "connect": 6,
    "crash": 2,
    "dead": RATE * SECONDS,
}


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdcStack]:
    with cdc_stack(tmp_path_factory.mktemp("cdc"), FAST) as made:
        yield made


@pytest.mark.parametrize("part", MIN)
def test_a_part_ends_with_public_equal_to_the_source(on: CdcStack, part: str) -> None:
    found = PARTS[part](on, SMALL)
    assert found["rows_that_differ"] == 0
    assert found["rows_compared"] >= MIN[part]
    if part.startswith("latency"):
        assert found["transactions"] == RATE * SECONDS
        assert 0 < found["commit_to_row_ms"]["p50"] <= found["due_to_row_ms"]["max"]
    if part == "backlog":
        assert found["changes"] == 8 * ROWS


def test_poll_cost_is_measured_by_number_of_tables(on: CdcStack) -> None:
    found = PARTS["source"](on, arguments(["--polls", "2", "--table-counts", "3", "5"]))
    assert {*found} == {"polls", "percent_of_a_core_3_tables", "percent_of_a_core_5_tables"}
    assert 0 < found["percent_of_a_core_3_tables"] < 100


def test_single_differing_row_is_detected(on: CdcStack) -> None:
    table = on.make_table(STEADY, "differs")
    theirs, ours = f"app.{table}", f"{STEADY}.{table}"
    assert differing(on.source(STEADY), theirs, on.warehouse, ours) == (0, 0)
    on.execute(on.warehouse, f"UPDATE {ours} SET note = ''")  # noqa: S608 - a name of our own
    assert differing(on.source(STEADY), theirs, on.warehouse, ours) == (1, 1)
