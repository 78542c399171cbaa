"""MERGE: landed changes become rows of the public table, by offset and by key, without repeats."""

import pytest

from services.cdc.merge.public_table import Cleaning
from services.cdc.merge.suspended import SuspendedError
from shared import failpoints
from tests.fixtures.changes import FIRST_MS, UNAVAILABLE, Stream
from tests.fixtures.writer import set_for_database
from tests.integration.cdc.merge_bench import Desk


def test_inserts_updates_and_deletes_become_rows(desk: Desk) -> None:
    stream = Stream().insert(id=1, note="a").insert(id=2, note="b").commit()
    stream.update(id=1, note="c").delete(id=2, note=None).insert(id=3, note=None)
    desk.tell().land(stream).merge()
    assert desk.rows() == [(1, "c"), (3, None)]
    assert desk.model() == {"next_offset": 5, "changes": 5, "repeats": 0, "reason": None}


def test_each_change_counts_once_however_the_merges_are_cut(desk: Desk) -> None:
    stream = Stream()
    for i in range(20):
        stream.insert(id=i, note="new").update(id=i, note=f"n{i}").commit()
    desk.tell().land(stream).merge(most=3)
    assert desk.rows() == sorted(((i, f"n{i}") for i in range(20)), key=repr)


def test_a_table_without_changes_is_there_and_empty(desk: Desk) -> None:
    desk.tell().merge()
    assert desk.rows() == []


def test_people_see_when_and_where_a_row_changed(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a")).merge()
    found = desk.bench.rows(
        "SELECT _lsn::text, (extract(epoch FROM _committed_at) * 1000)::int8 FROM shop.orders"
    )
    assert found == [("0/3E9", FIRST_MS + 1_000)]


def test_order_is_the_topics_and_not_the_lsns(desk: Desk) -> None:
    """A transaction that was open when the slot was made comes later, with a lower LSN."""
    late = Stream(at=2000).insert(id=1, note="first")
    late.at, late.order = 2100, 0
    late.add("u", None, {"id": 1, "note": "second"}, lsn=1500)
    desk.tell().land(late).merge()
    assert desk.rows() == [(1, "second")]


def test_a_merge_that_ends_before_its_commit_did_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.key = None
    desk.tell().land(Stream().insert(id=1, note="a"))

    def die(name: str) -> None:
        if name == "merger.before_commit":
            raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "reach", die)
        with pytest.raises(ConnectionError):
            desk.merge()
    assert (desk.rows(), desk.model()["next_offset"]) == ([], 0)
    desk.merge()
    assert desk.rows() == [(1, "a")]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_changes_resent_by_a_killed_connector_count_once(desk: Desk, most: int) -> None:
    desk.key = None
    stream = Stream().insert(id=1, note="a").insert(id=1, note="a").commit().delete(id=1, note="a").again(3)
    stream.insert(id=2, note="b").again(2)
    desk.tell().land(stream).merge(most)
    assert desk.rows() == [(1, "a"), (2, "b")]
    assert desk.model()["repeats"] == 5


def test_a_repeat_that_lands_later_counts_once(desk: Desk) -> None:
    desk.key = None
    stream = Stream().insert(id=1, note="a").commit().insert(id=2, note="b")
    desk.tell().land(stream).merge().land(stream.values[-1:]).merge()
    assert desk.rows() == [(1, "a"), (2, "b")]


def test_a_change_whose_commit_is_lower_and_that_is_no_repeat_counts(desk: Desk) -> None:
    """The first change after a snapshot has the snapshot's position; the next transaction's may be lower."""
    desk.tell().land(Stream(at=2000).insert(id=1, note="a")).merge().land(
        Stream(at=1900).insert(id=2, note="b")
    ).merge()
    assert desk.rows() == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_a_value_that_was_left_out_is_that_of_the_change_before_or_the_old_rows(
    desk: Desk, most: int
) -> None:
    desk.columns["size"] = "integer"
    stream = Stream().insert(id=1, note="large", size=1).update(id=1, note=UNAVAILABLE, size=2)
    stream.insert(id=2, note="other", size=1).update(id=2, note="larger", size=1).commit()
    stream.update(id=2, note=UNAVAILABLE, size=3).update(id=1, note=UNAVAILABLE, size=4)
    desk.tell().land(stream).merge(most)
    assert desk.rows() == [(1, "large", 4), (2, "larger", 3)]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 100])
def test_a_new_key_keeps_what_was_left_out_from_the_old_one(desk: Desk, most: int) -> None:
    stream = Stream().insert(id=1, note="large").insert(id=2, note="other").commit()
    stream.rekey({"id": 1, "note": None}, id=7, note=UNAVAILABLE).commit()
    stream.rekey({"id": 7, "note": None}, id=8, note=UNAVAILABLE)
    stream.rekey({"id": 2, "note": None}, id=1, note=UNAVAILABLE).update(id=1, note=UNAVAILABLE)
    desk.tell().land(stream).merge(most)
    assert desk.rows() == [(1, "other"), (8, "large")]


def test_a_new_key_whose_halves_land_apart_with_a_repeat_between_them(desk: Desk) -> None:
    stream = (
        Stream().insert(id=1, note="large").commit().rekey({"id": 1, "note": None}, id=2, note=UNAVAILABLE)
    )
    insert, delete, create = stream.values
    desk.tell().land([insert, delete]).merge().land([delete, create]).merge()
    assert desk.rows() == [(2, "large")]


@pytest.mark.parametrize("most", [1, 100])
def test_truncate_empties_the_table_and_what_follows_counts(desk: Desk, most: int) -> None:
    stream = Stream().insert(id=1, note="a").truncate().insert(id=2, note="b").commit()
    desk.tell().land(stream).merge(most)
    assert desk.rows() == [(2, "b")]
    desk.land(Stream(at=1200).truncate()).merge(most)
    assert desk.rows() == []


@pytest.mark.parametrize("most", [1, 2, 100])
def test_a_snapshot_begins_the_table_empty(desk: Desk, most: int) -> None:
    desk.key = None
    rows = [{"id": i, "note": "s"} for i in range(3)]
    again = Stream().snapshot(rows)
    del again.values[2:]  # the connector was killed during it
    desk.tell().land(again, Stream().snapshot(rows), Stream().insert(id=9, note="n")).merge(most)
    assert desk.rows() == [(0, "s"), (1, "s"), (2, "s"), (9, "n")]
    desk.land(Stream(at=5000).snapshot(rows[:1])).merge(most)
    assert desk.rows() == [(0, "s")]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_a_snapshot_of_one_row_is_not_the_tail_of_one_that_was_cut_off(desk: Desk, most: int) -> None:
    rows = [{"id": i, "note": "s"} for i in range(3)]
    cut_off = Stream().snapshot(rows)
    del cut_off.values[2:]
    desk.tell().land(cut_off, Stream(at=1100).snapshot([{"id": 2, "note": "alone"}])).merge(most)
    assert desk.rows() == [(2, "alone")]


@pytest.mark.parametrize("most", [2, 100])
def test_a_snapshot_may_begin_at_a_lower_position_than_one_that_was_cut_off(desk: Desk, most: int) -> None:
    """Repeat changes, as a killed connector that had not committed its offset."""
    rows = [{"id": i, "note": "old"} for i in range(4)]
    again = Stream(at=1500).snapshot([{"id": i, "note": "new"} for i in range(4)])
    desk.tell().land(Stream(at=2000).snapshot(rows).values[:2], again).merge(most)
    assert desk.rows() == [(i, "new") for i in range(4)]


@pytest.mark.parametrize("is_merged", [True, False])
@pytest.mark.parametrize("most", [1, 100])
def test_changes_of_another_log_are_no_repeats(desk: Desk, most: int, *, is_merged: bool) -> None:
    before = Stream().insert(id=1, note="a").insert(id=2, note="b").commit()
    desk.tell().land(before)
    if is_merged:
        desk.merge(most)
    desk.begin_again(by_a_resync=True)
    # The source was restored from a backup: its log goes on in another way, with positions that were there.
    after = Stream().insert(id=7, note="new").insert(id=8, note="new").commit()
    desk.land(after).merge(most)
    assert desk.rows() == [(7, "new"), (8, "new")]
    desk.land(after, Stream(at=1100).delete(id=7, note="new")).merge(most)  # sent again
    assert desk.rows() == [(8, "new")]


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_changes_resent_after_a_snapshot_do_not_overwrite_its_rows(desk: Desk, most: int) -> None:
    stream = Stream().insert(id=1, note="a").update(id=1, note="b")
    before = list(stream.values)
    desk.tell().land(stream, Stream().snapshot([{"id": 1, "note": "c"}, {"id": 2, "note": "d"}]))
    desk.merge(most).land(before).merge(most)
    assert desk.rows() == [(1, "c"), (2, "d")]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_without_a_key_one_delete_takes_one_of_equal_rows(desk: Desk, most: int) -> None:
    desk.key = None
    stream = Stream()
    for _ in range(3):
        stream.insert(id=1, note="a")
    stream.commit().delete(id=1, note="a").update({"id": 1, "note": "a"}, id=1, note="b")
    stream.update({"id": 1, "note": "b"}, id=5, note="b")
    desk.tell().land(stream).merge(most)
    assert desk.rows() == [(1, "a"), (5, "b")]


@pytest.mark.parametrize("gone", [0, 1])
def test_without_a_key_rows_that_differ_little_are_two(desk: Desk, gone: int) -> None:
    set_for_database(desk.bench.dsn, {"extra_float_digits": "-10"})
    desk.key, desk.columns = None, {"n": "double precision"}
    both = [0.1, 0.1000000001]
    desk.tell().land(Stream().insert(n=both[0]).insert(n=both[1]).commit().delete(n=both[gone])).merge(2)
    assert desk.bench.rows("SELECT n = 0.1 FROM shop.orders") == [(gone == 1,)]


def test_a_column_that_no_look_saw_is_passed_over_once_the_table_was_read_again(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a", away=1))
    with pytest.raises(SuspendedError, match="a column away that the schema history does not have"):
        desk.merge()
    desk.land(Stream(at=2000).snapshot([{"id": 1, "note": "b"}])).merge()
    assert desk.rows() == [(1, "b")]


def test_generated_columns_are_never_taken(desk: Desk) -> None:
    desk.columns |= {"twice": "integer"}
    desk.tell(generated=["twice"]).land(Stream().snapshot([{"id": 1, "note": "a", "twice": 2}])).merge()
    assert desk.rows("id", "note") == [(1, "a")]
    assert (
        desk.bench.rows(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'shop.orders'::regclass AND attname = 'twice'"
        )
        == []
    )


def test_columns_that_come_and_change_their_type(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="7")).merge()
    desk.columns |= {"note": "bigint", "extra": "text"}
    desk.tell().land(Stream(at=1200).insert(id=2, note=8, extra="e")).merge()
    assert desk.rows() == [(1, 7, None), (2, 8, "e")]


@pytest.mark.parametrize("most", [1, 100])
def test_values_that_a_new_type_does_not_take_are_passed_over_when_the_table_is_read_again(
    desk: Desk, most: int
) -> None:
    desk.tell().land(Stream().insert(id=1, note="a")).merge()
    before = Stream(at=1100).insert(id=2, note="bb").update(id=1, note="aa")
    desk.columns["note"] = "integer"
    desk.tell().land(before)
    with pytest.raises(SuspendedError, match="re-snapshotted"):
        desk.merge(most)
    assert desk.bench.rows("SELECT id, note FROM shop.orders") == [(1, "a")], "people may still look at it"
    desk.land(Stream(at=1300).snapshot([{"id": 1, "note": 2}, {"id": 2, "note": 2}]))
    desk.land(Stream(at=1400).insert(id=3, note=3)).merge(most)
    assert desk.rows() == [(1, 2), (2, 2), (3, 3)]
    assert desk.model()["changes"] == 6
    desk.land(before).merge(most)  # the connector was killed during it
    assert desk.rows() == [(1, 2), (2, 2), (3, 3)]


def test_a_column_that_the_history_does_not_have_yet_is_waited_for(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a", extra="e"))
    with pytest.raises(SuspendedError, match="extra"):
        desk.merge()
    desk.columns["extra"] = "text"
    desk.tell().merge()
    assert desk.rows() == [(1, "a", "e")]


def test_a_value_that_does_not_fit_holds_the_table_and_changes_nothing(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a")).merge()
    desk.land(Stream(at=1200).insert(id=2, note="b").insert(id="secret", note="c"))
    with pytest.raises(SuspendedError, match="22P02") as held:
        desk.merge()
    assert "secret" not in str(held.value)
    assert "the value of column id in cdc.shop-app-orders 0 2 does not fit" in str(held.value)
    assert (desk.rows(), desk.model()["next_offset"]) == ([(1, "a")], 1)


def test_a_table_of_somebody_else_is_not_touched(desk: Desk) -> None:
    desk.bench.execute("CREATE SCHEMA shop; CREATE TABLE shop.orders (id int)")
    with pytest.raises(SuspendedError, match="not Onramp's"):
        desk.tell().land(Stream().insert(id=1, note="a")).merge()


def test_a_row_that_is_not_there_for_a_value_that_was_left_out_holds_the_table(desk: Desk) -> None:
    desk.tell().land(Stream().update(id=1, note=UNAVAILABLE))
    with pytest.raises(SuspendedError, match="resync"):
        desk.merge()


def test_cleaning_takes_rows_that_pass_and_leaves_columns_out(desk: Desk) -> None:
    desk.columns["card"] = "text"
    cleaning = Cleaning(where="after->>'note' NOT LIKE '%@test'", excluded_columns=frozenset({"card"}))
    stream = Stream().insert(id=1, note="a", card="1").insert(id=2, note="b@test", card="2")
    stream.insert(id=3, note="c", card="3").commit().update(id=3, note="c@test", card="3")
    stream.insert(id=4, note="d@test", card="4").update(id=4, note="d", card="4")
    desk.tell().land(stream).merge(cleaning=cleaning)
    assert desk.rows("id", "note") == [(1, "a"), (4, "d")]
    desk.land(Stream(at=1500).update(id=1, note=UNAVAILABLE, card="5")).merge(cleaning=cleaning)
    assert desk.rows("id", "note") == [(1, "a"), (4, "d")]


def test_a_table_that_was_dropped_is_there_for_people_to_look_at(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a")).merge()
    desk.tell(dropped=True, lsn=1100).merge()
    assert desk.rows() == [(1, "a")]
