"""Rows of many columns need more memory as text than in their table."""

import pytest

from services.writer.persist import stage
from shared.errors import DATA_REJECTED
from tests.fixtures.writer import arrivals
from tests.integration.writer_tables.conftest import Tables, destination, packet, states

WIDTH = 700


def _wide(tables: Tables, kind: str = "bigint", **also: str) -> None:
    columns = ", ".join(f"v{i} {also.get(f'v{i}', kind)}" for i in range(WIDTH))
    tables.bench.execute(f"CREATE TABLE public.wide (id int PRIMARY KEY, {columns})")


def _row(number: int, value: object = 1234567890123) -> dict[str, object]:
    return {"id": number} | {f"v{i}": value for i in range(WIDTH)}


def test_a_wide_row_that_is_sent_again_is_a_duplicate_and_takes_nothing_out(tables: Tables) -> None:
    _wide(tables)
    values = [packet(_row(n), destination("wide")) for n in (1, 1, 2, 1)]
    assert tables.bench.settle(arrivals(values[:1])).failures == ()
    assert tables.bench.settle(arrivals(values[1:], first=1)).failures == ()
    assert tables.bench.totals() == {"landed": 2, "duplicate": 2}
    assert tables.bench.rows("SELECT id, v0, v699 FROM public.wide ORDER BY 1") == [
        (n, 1234567890123, 1234567890123) for n in (1, 2)
    ]


def test_a_bad_one_among_wide_rows_is_parked_alone(tables: Tables) -> None:
    _wide(tables, v650="bigint CHECK (v650 <> 13)")
    done = tables.land("wide", _row(1), _row(2) | {"v650": 13}, _row(3), _row(4) | {"v1": "x"})
    assert (done.landed.total(), len(done.parked)) == (2, 2)
    assert ["23514" in s for s in states(done)] == [True, False]


def test_a_row_that_its_table_has_no_room_for_is_parked_alone(tables: Tables) -> None:
    _wide(tables, "text")
    done = tables.land("wide", _row(1, "x" * 12), _row(2, "short"), {"id": 3})
    assert done.landed.total() == 2
    assert [p.error.fault for p in done.parked] == [DATA_REJECTED]
    assert "54000" in states(done)[0]


def test_a_row_that_cannot_even_be_staged_is_parked_alone(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    _wide(tables, v650="bigint CHECK (v650 <> 13)")
    tables.land("wide", _row(1, 7))
    monkeypatch.setattr(stage, "_MAX_COLUMNS", WIDTH + 1)
    rows = [_row(n, 1234567890123 if n == 3 else 7) for n in range(1, 6)]
    done = tables.land("wide", *rows[:4], rows[4] | {"v650": 13})
    assert (done.landed.total(), done.duplicates().total()) == (2, 1)
    assert [p.row_index for p in done.parked] == [2, 4]
    assert ["54000" in s for s in states(done)] == [True, False]
