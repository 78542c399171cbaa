"""Manual changes to a public table: each is reported before it makes nulls or rounds values."""

import pytest

from services.cdc.merge.suspended import SuspendedError
from services.cdc.setup.source_requests_sql import rebuild
from tests.fixtures.changes import Stream
from tests.integration.cdc.merge_bench import Desk

ROWS = [(1, "1.25"), (2, "2.75")]
MORE = [*ROWS, (3, "3.50")]
ALTER = "ALTER TABLE shop.orders"
MADE_AGAIN = (
    "CREATE TABLE shop.other AS SELECT * FROM shop.orders WHERE id = 1; DROP TABLE shop.orders; "
    "ALTER TABLE shop.other RENAME TO orders"
)


def sold(desk: Desk) -> Desk:
    """Two orders are published, with amounts that an integer would cut."""
    desk.columns = {"id": "integer", "amount": "numeric(10,2)"}
    desk.tell().land(Stream().insert(id=1, amount="1.25").insert(id=2, amount="2.75")).merge()
    assert amounts(desk) == ROWS
    return desk


def amounts(desk: Desk) -> list[tuple[object, ...]]:
    return desk.bench.rows("SELECT id, amount::text FROM shop.orders ORDER BY id")


def more(desk: Desk) -> Desk:
    return desk.land(Stream(at=1200).insert(id=3, amount="3.50"))


def has_rebuilt(desk: Desk) -> bool:
    return rebuild(desk.bench.dsn, "shop", "app", "orders") == ""


@pytest.mark.parametrize(
    ("by_hand", "told"),
    [
        (f"{ALTER} DROP COLUMN amount", "dropped the column amount"),
        (f"{ALTER} DROP COLUMN amount, ADD COLUMN amount numeric(10,2)", "dropped the column amount"),
        (f"{ALTER} RENAME amount TO price", "renamed the column amount of shop.orders to price"),
        (f"{ALTER} ALTER amount TYPE int", r"amount of shop.orders from numeric\(10,2\) to integer"),
        (f"{ALTER} ALTER amount TYPE numeric(10,1)", r"to numeric\(10,1\)"),
        (f"{ALTER} DROP COLUMN _lsn", "dropped the column _lsn"),
        (f"{ALTER} RENAME TO old_orders", "dropped or renamed the public table"),
        ("DROP TABLE shop.orders", "dropped or renamed the public table"),
        (MADE_AGAIN, "dropped or renamed the public table"),
    ],
)
def test_manual_change_to_a_public_table_suspends_it_until_a_rebuild(
    desk: Desk, by_hand: str, told: str
) -> None:
    sold(desk)
    desk.bench.execute(by_hand)
    more(desk)
    with pytest.raises(SuspendedError, match=told) as held:
        desk.merge()
    assert "onramp sources rebuild shop.app.orders" in str(held.value)
    assert desk.model()["next_offset"] == 2, "nothing may be merged into it"
    assert has_rebuilt(desk)
    desk.merge()
    assert amounts(desk) == MORE


def test_a_name_that_is_put_back_is_enough_and_a_type_is_not(desk: Desk) -> None:
    sold(desk)
    more(desk).bench.execute(f"{ALTER} RENAME amount TO price")
    with pytest.raises(SuspendedError, match="rename it back"):
        desk.merge()
    desk.bench.execute(f"{ALTER} RENAME price TO amount")
    assert amounts(desk.merge()) == MORE

    desk.bench.execute(f"{ALTER} ALTER amount TYPE int")
    desk.land(Stream(at=1300).delete(id=3))
    with pytest.raises(SuspendedError, match="to integer"):
        desk.merge()
    desk.bench.execute(f"{ALTER} ALTER amount TYPE numeric(10,2)")
    assert amounts(desk) != MORE, "values are cut"
    with pytest.raises(SuspendedError, match="to integer"):
        desk.merge()
    assert has_rebuilt(desk)
    assert amounts(desk.merge()) == ROWS


def test_manually_added_column_is_not_mistaken_for_a_source_column(desk: Desk) -> None:
    sold(desk).bench.execute(f"{ALTER} ADD extra text")
    desk.bench.execute("UPDATE shop.orders SET extra = 'by hand'")
    more(desk).merge()
    desk.columns["extra"] = "text"
    desk.tell().land(Stream(at=1300).insert(id=4, amount="4.00", extra="e"))
    with pytest.raises(SuspendedError, match="column extra that a person added"):
        desk.merge()
    desk.bench.execute(f"{ALTER} RENAME extra TO remark")
    desk.merge()
    assert desk.rows("id", "extra") == [(1, None), (2, None), (3, None), (4, "e")]


@pytest.mark.parametrize("rows", [[], [{"id": 1, "amount": "1.25"}, {"id": 9, "amount": "9.75"}]])
def test_a_resync_heals_it_also_when_no_row_is_left(desk: Desk, rows: list[dict[str, object]]) -> None:
    sold(desk).bench.execute(f"{ALTER} DROP COLUMN amount")
    more(desk)
    with pytest.raises(SuspendedError, match="dropped the column"):
        desk.merge()
    desk.bench.execute(f"UPDATE onramp.table_settings SET clear_at = {desk.next_offset}, clear_after = 0")  # noqa: S608
    desk.land(Stream(at=1400).snapshot(rows)).merge()
    assert amounts(desk) == [(r["id"], r["amount"]) for r in rows]


def test_columns_that_the_source_drops_and_brings_back_are_no_damage(desk: Desk) -> None:
    sold(desk)
    del desk.columns["amount"]
    desk.tell().land(Stream(at=1200).insert(id=3)).merge()
    desk.bench.execute(f"{ALTER} DROP COLUMN amount")
    desk.land(Stream(at=1300).insert(id=4)).merge()
    desk.columns["amount"] = "numeric(10,2)"
    desk.tell().land(Stream(at=1400).insert(id=5, amount="5.00")).merge()
    assert amounts(desk) == [(1, None), (2, None), (3, None), (4, None), (5, "5.00")]


def test_a_table_that_was_restored_in_another_database_goes_on(desk: Desk) -> None:
    sold(desk)
    desk.bench.execute(
        "CREATE TABLE shop.other (LIKE shop.orders INCLUDING ALL); INSERT INTO shop.other TABLE shop.orders; "
        "DROP TABLE shop.orders; ALTER TABLE shop.other RENAME TO orders; "
        'UPDATE onramp.table_settings SET stored_shape = stored_shape || \'{"place": "another"}\''
    )
    assert amounts(more(desk).merge()) == MORE
    desk.bench.execute(f"{ALTER} DROP COLUMN amount")
    with pytest.raises(SuspendedError, match="dropped the column"):
        desk.land(Stream(at=1300).insert(id=4, amount="4.00")).merge()
