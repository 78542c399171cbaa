"""Rows of a public table are deleted in the transaction that inserts their replacement, never before."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from services.cdc.merge.suspended import SuspendedError
from services.cdc.setup.source_requests_sql import rebuild
from tests.fixtures.changes import Stream
from tests.integration.cdc.merge_bench import NAME, Desk

TABLE: Final = NAME[1:]
OLD: Final = [(1, "old"), (2, "old"), (3, "old")]
NEW: Final = [(1, "new"), (2, "new"), (4, "new")]
#: By how many transactions the rows were inserted.
TRANSACTIONS: Final = "SELECT count(DISTINCT xmin::text)::int FROM shop.orders"


def rows_of(rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [{"id": id_, "note": note} for id_, note in rows]


def snapshot(at: int = 5000) -> list[bytes]:
    return Stream(at=at).snapshot(rows_of(NEW)).values


@pytest.fixture(params=[True, False], ids=["key", "no key"])
def old(desk: Desk, request: pytest.FixtureRequest) -> Desk:
    """A table with rows."""
    desk.key = ("id",) if request.param else None
    stream = Stream()
    for row in rows_of(OLD):
        stream.insert(**row)
    assert desk.tell().land(stream.commit()).merge().rows() == OLD
    return desk


@pytest.mark.parametrize("most", [1, 100])
def test_a_snapshot_replaces_the_rows_once_its_last_row_has_landed(old: Desk, most: int) -> None:
    *rows, last = snapshot()
    for row in rows:
        assert old.land([row]).merge(most).rows() == OLD
    old.land([last], Stream(at=6000).insert(id=5, note="later")).merge(most)
    assert old.rows() == [*NEW, (5, "later")]
    assert old.bench.one(TRANSACTIONS + " WHERE id < 5") == 1


@pytest.mark.parametrize("most", [1, 100])
def test_changes_behind_a_partial_snapshot_wait_for_the_next_one(old: Desk, most: int) -> None:
    later = Stream(at=5500).delete(id=1, note="old").insert(id=7, note="later").commit()
    old.land(snapshot()[:2], later, snapshot(6000)[:1]).merge(most)
    assert old.rows() == OLD
    assert old.land(snapshot(6000)[1:]).merge(most).rows() == NEW


def test_a_table_that_waits_for_a_snapshot_is_not_behind(old: Desk) -> None:
    with old.store() as store:
        store.read()
        old.land(snapshot()[:2])
        assert list(store.read().behind.values()) == [3]
        old.merge()
        assert store.read().behind == {}
        old.land(snapshot(), Stream(at=6000).insert(id=5, note="later")).merge()
        old.land(Stream(at=8000).insert(id=6, note="later"))
        assert list(store.read().behind.values()) == [9]


@pytest.mark.parametrize("most", [1, 100])
def test_an_empty_table_is_filled_while_its_first_snapshot_runs(desk: Desk, most: int) -> None:
    desk.tell().land(snapshot()[:2]).merge(most)
    assert desk.rows() == NEW[:2]
    assert desk.land(snapshot()[2:]).merge(most).rows() == NEW


@pytest.mark.parametrize("most", [1, 100])
def test_a_resync_keeps_the_rows_until_its_snapshot_has_landed(old: Desk, most: int) -> None:
    old.land(Stream(at=2000).insert(id=4, note="old")).resync().merge(most)
    *rows, last = snapshot()
    assert old.land(rows).merge(most).rows() == [*OLD, (4, "old")]
    assert old.land([last]).merge(most).rows() == NEW
    assert old.bench.one(TRANSACTIONS) == 1
    # The end of the snapshot is noted for those whose rows are there already, too.
    old.land(Stream(at=6000).insert(id=5, note="later")).end_first_snapshot()
    assert old.merge(most).rows() == [*NEW, (5, "later")]


@pytest.mark.parametrize("most", [1, 100])
@pytest.mark.parametrize("has_changes", [True, False])
def test_a_resync_empties_a_table_without_rows_once_its_end_is_known(
    old: Desk, most: int, *, has_changes: bool
) -> None:
    assert old.resync().merge(most).rows() == OLD
    old.end_first_snapshot()
    if has_changes:
        old.land(Stream(at=6000).insert(id=5, note="later"))
    assert old.merge(most).rows() == ([(5, "later")] if has_changes else [])


def test_a_resync_waits_until_all_has_landed_up_to_the_end_of_its_snapshot(old: Desk) -> None:
    old.resync()
    # The first table of a source has no last row if it has one row alone.
    alone = Stream(at=5000).snapshot(rows_of(NEW[:2])).values[0]
    old.next_offset += 1
    old.end_first_snapshot()
    old.next_offset -= 1
    assert old.merge().rows() == OLD
    assert old.land([alone]).merge().rows() == NEW[:1]


@dataclass(frozen=True, kw_only=True)
class Rekeyed:
    """A table whose key becomes another one, and its rows before and after it."""

    columns: Mapping[str, str]
    key: Sequence[str] | None
    after: Mapping[str, str]
    key_after: Sequence[str] | None
    row: Mapping[str, Any]
    new: Sequence[Mapping[str, Any]]
    before: Mapping[str, Any] = field(default_factory=dict)


CODES: Final = {"id": "integer", "code": "text", "note": "text"}
REKEYED: Final = {
    "DROP COLUMN id; ADD PRIMARY KEY (code)": Rekeyed(
        columns=CODES,
        key=("id",),
        after={"code": "text", "note": "text"},
        key_after=("code",),
        row={"id": 1, "code": "a", "note": "old"},
        new=[{"code": "a", "note": "new"}, {"code": "b", "note": None}],
    ),
    "a composite key loses a column, which becomes nullable": Rekeyed(
        columns=CODES,
        key=("id", "code"),
        after=CODES,
        key_after=("id",),
        row={"id": 1, "code": "a", "note": "old"},
        new=[{"id": 1, "code": None, "note": "new"}, {"id": 2, "code": "b", "note": None}],
    ),
    "another column of a composite key": Rekeyed(
        columns=CODES,
        key=("id", "code"),
        after=CODES,
        key_after=("id", "note"),
        row={"id": 1, "code": "a", "note": "old"},
        new=[{"id": 1, "code": None, "note": "new"}, {"id": 1, "code": None, "note": "newer"}],
    ),
    "DROP CONSTRAINT; REPLICA IDENTITY FULL": Rekeyed(
        columns=CODES,
        key=("id",),
        after=CODES,
        key_after=None,
        row={"id": 1, "code": "a", "note": "old"},
        new=[{"id": None, "code": "a", "note": "new"}, {"id": None, "code": "a", "note": "new"}],
    ),
    "a key for a table that had none, by values that it had twice": Rekeyed(
        columns=CODES,
        key=None,
        after=CODES,
        key_after=("code",),
        row={"id": 1, "code": None, "note": "old"},
        new=[{"id": None, "code": "a", "note": "new"}, {"id": None, "code": "b", "note": "new"}],
    ),
    "ADD COLUMN id SERIAL PRIMARY KEY": Rekeyed(
        columns={"code": "text", "note": "text"},
        key=("code",),
        after={"code": "text", "note": "text", "id": "integer"},
        key_after=("id",),
        row={"code": "a", "note": "old"},
        new=[{"id": 1, "code": None, "note": "new"}, {"id": 2, "code": "a", "note": "new"}],
    ),
    "a key of another type": Rekeyed(
        columns=CODES,
        key=("code",),
        after=CODES | {"code": "integer"},
        key_after=("code",),
        row={"id": 1, "code": "a", "note": "old"},
        new=[{"id": 1, "code": 7, "note": "new"}, {"id": 2, "code": 8, "note": "new"}],
    ),
}


@pytest.mark.parametrize("most", [1, 100])
@pytest.mark.parametrize("case", REKEYED.values(), ids=list(REKEYED))
def test_a_table_whose_key_changes_keeps_its_rows_until_the_snapshot_has_landed(
    desk: Desk, case: Rekeyed, most: int
) -> None:
    desk.columns, desk.key = dict(case.columns), case.key
    desk.tell().land(Stream().insert(**case.row)).merge(most)
    desk.columns, desk.key = dict(case.after), case.key_after
    # By the old key, before the agent has seen the other one.
    change = Stream(at=1100).update(None if case.key else case.row, **(case.row | {"note": "older"}))
    *rows, last = Stream(at=2000).snapshot(case.new).values
    for landed in ([], change.values, rows):
        with suppress(SuspendedError):
            desk.tell().land(landed).merge(most)
        assert {note for (note,) in desk.rows("note")} & {"old", "older"}
    desk.land([last]).merge(most)
    assert desk.rows() == sorted((tuple(row[c] for c in case.after) for row in case.new), key=repr)
    desk.land(Stream(at=3000).delete(**case.new[0])).merge(most)
    assert len(desk.rows()) == 1


@pytest.mark.parametrize("most", [1, 100])
@pytest.mark.parametrize("changes", [0, 3])
def test_a_table_that_takes_the_name_of_another_one_keeps_its_rows_until_it_is_read(
    old: Desk, most: int, changes: int
) -> None:
    """`ALTER TABLE orders RENAME TO orders_old; ALTER TABLE orders_new RENAME TO orders`."""
    old.columns["size"] = "integer"
    old.tell(dropped=True, lsn=1990).tell(lsn=1990)
    stream = Stream(at=2000)
    for id_ in range(changes):
        stream.insert(id=10 + id_, note="before it is read", size=1)
    *rows, last = Stream(at=5000).snapshot([row | {"size": 7} for row in rows_of(NEW)]).values
    for landed in (stream.values, rows):
        assert old.land(landed).merge(most).rows("id", "note") == OLD
    old.land([last]).merge(most)
    assert old.rows() == [(*row, 7) for row in NEW]
    old.land(Stream(at=6000).insert(id=9, note="later", size=7)).merge(most)
    assert old.rows() == [*((*row, 7) for row in NEW), (9, "later", 7)]


def test_a_table_that_takes_the_name_of_another_one_and_has_no_rows(old: Desk) -> None:
    old.tell(dropped=True, lsn=1990).tell(lsn=1990)
    start = old.next_offset
    old.land(Stream(at=2000).insert(id=9, note="later"))
    assert old.merge().rows() == OLD
    with old.store() as store:
        store.empty(TABLE, start)
    assert old.merge().rows() == [(9, "later")]
    assert old.land(Stream(at=2100).insert(id=10, note="later")).merge().rows() == [
        (10, "later"),
        (9, "later"),
    ]


@pytest.mark.parametrize("most", [1, 100])
def test_a_snapshot_of_a_table_of_before_does_not_end_the_wait(desk: Desk, most: int) -> None:
    """Its first rows were merged into the empty table; its last one is no end of the next one."""
    desk.tell().land(snapshot()[:2]).merge(most)
    desk.tell(dropped=True, lsn=5990).tell(lsn=5990)
    desk.land(snapshot()[2:], Stream(at=6000).insert(id=9, note="of the new one")).merge(most)
    assert desk.rows() == NEW
    assert desk.land(snapshot(7000)).merge(most).rows() == NEW


def test_a_rebuild_replaces_the_rows_in_one_transaction(old: Desk) -> None:
    old.bench.execute("UPDATE shop.orders SET note = 'by hand'")
    assert rebuild(old.bench.dsn, *NAME) == ""
    old.merge(1)
    assert old.rows() == OLD
    assert old.bench.one(TRANSACTIONS) == 1


def test_columns_that_a_person_added_get_their_defaults(old: Desk) -> None:
    old.bench.execute(
        "ALTER TABLE shop.orders ADD tag text DEFAULT 'none'; UPDATE shop.orders SET tag = 'mine'"
    )
    old.land(snapshot()).merge()
    assert old.bench.rows("SELECT DISTINCT tag FROM shop.orders") == [("none",)]
