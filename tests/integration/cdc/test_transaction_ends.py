"""Transaction ends: the event counts that a source reports, compared with the changes that landed."""

import pytest

from services.cdc.merger import trim_sql
from services.ops import totals_sql
from services.ops.transactions import transactions_sql
from tests.fixtures.changes import Stream
from tests.integration.cdc.merge_bench import NAME, Desk

#: Seconds back to 1995: what is of 1970 alone is older.
KEPT = 1_000_000_000
#: By transaction (its place in the log): rows with one note.
SOLD = {1000: "a", 1100: "b", 1200: "c"}


def sold() -> Stream:
    """Three transactions of two rows each."""
    stream = Stream()
    for at, note in SOLD.items():
        stream.insert(id=at, note=note).insert(id=at + 1, note=note).commit()
    return stream


def lacking(desk: Desk) -> list[tuple[int, int, int, bool]]:
    """Transactions of which not all has landed: xid, announced, landed, whether later ones have."""
    with totals_sql.opened("onramp", desk.bench.dsn) as snapshot:
        (table,) = transactions_sql.tables(snapshot.conn)
        found = transactions_sql.lacking(snapshot.conn, table, 10)
    return [(each.xid, each.announced, each.landed, each.is_passed) for each in found]


def lose(desk: Desk, where: str) -> None:
    desk.bench.execute(f"DELETE FROM landing.shop__app__orders WHERE {where}")  # noqa: S608


def test_a_change_that_did_not_land_is_missed_by_its_transaction(desk: Desk) -> None:
    desk.tell().land(sold()).land_ends(sold().ends())
    assert lacking(desk) == []
    lose(desk, "_offset = 3")
    assert lacking(desk) == [(1100, 2, 1, True)]
    lose(desk, "_offset > 3")
    assert lacking(desk) == [(1100, 2, 1, False), (1200, 2, 0, False)], "it may be on its way"


def test_resent_changes_and_resent_transaction_ends_count_once(desk: Desk) -> None:
    desk.tell().land(sold().again(4)).land_ends([*sold().ends(), *sold().ends()])
    assert lacking(desk) == []
    lose(desk, "_offset IN (3, 7)")
    assert lacking(desk) == [(1100, 2, 1, True)]


def test_changes_covered_by_a_snapshot_are_not_reported_missing(desk: Desk) -> None:
    desk.tell().land(sold(), Stream(at=1150).snapshot([{"id": 1, "note": "s"}]))
    desk.land(Stream(at=1300).insert(id=2, note="t")).land_ends(sold().ends())
    lose(desk, "_offset IN (1, 5)")
    assert lacking(desk) == [(1200, 2, 1, True)]


@pytest.mark.parametrize("most", [1, 100])
def test_trimmed_changes_are_not_reported_missing(desk: Desk, most: int) -> None:
    desk.tell().land(sold()).land_ends(sold().ends()).merge(most)
    desk.bench.execute(
        "UPDATE landing.shop__app__orders SET change = change || '{\"ts_ms\": 1}' WHERE _offset < 3"
    )
    with desk.connected() as conn:
        assert trim_sql.trim(conn, NAME, KEPT) == 3
    assert lacking(desk) == []
    lose(desk, "_offset = 5")
    assert [found[:3] for found in lacking(desk)] == [(1200, 2, 1)]


def test_old_transaction_ends_are_trimmed(desk: Desk) -> None:
    desk.tell().land_ends(sold().ends())
    desk.bench.execute(
        "UPDATE landing.shop__transaction SET change = change || '{\"ts_ms\": 1}' WHERE _offset < 4"
    )
    with desk.connected() as conn:
        assert trim_sql.trim_transactions(conn, "shop", KEPT) == 4
        assert trim_sql.trim_transactions(conn, "other", KEPT) == 0
    assert desk.bench.one("SELECT count(*) FROM landing.shop__transaction") == 2
    assert [found[0] for found in lacking(desk)] == [1200]


def test_a_table_of_which_nothing_landed_and_one_that_is_not_published(desk: Desk) -> None:
    desk.tell().land_ends([*sold().ends(), *Stream(table="excluded").insert(id=1).ends()])
    assert [found[:3] for found in lacking(desk)] == [(1000, 2, 0), (1100, 2, 0), (1200, 2, 0)]
