"""A table that was emptied without an event: the public table is emptied, and has all later changes."""

from typing import Final
from uuid import UUID

import pytest

from services.cdc.change_detection.topic_generation_sql import End
from services.cdc.merge.suspended import SuspendedError
from services.cdc.setup.source_requests_sql import rebuild
from tests.fixtures.changes import Stream
from tests.integration.cdc.merge_bench import NAME, Desk

TABLE: Final = NAME[1:]
ASKED: Final = """
    INSERT INTO onramp.source_resnapshots
        (source, schema_name, table_name, start, token, snapshot, lsn, has_rows)
    VALUES (%s, %s, %s, %s, %s, '2050:2050:', '0/0'::pg_lsn + 2050, false)
"""


@pytest.mark.parametrize("most", [1, 100])
@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("is_merged", [True, False])
def test_it_is_made_of_what_came_since(desk: Desk, most: int, *, has_key: bool, is_merged: bool) -> None:
    desk.key = ("id",) if has_key else None
    before = Stream().insert(id=1, note="gone").insert(id=2, note="gone").commit()
    after = Stream(at=2000).insert(id=3, note="c").insert(id=4, note="d").commit().delete(id=3, note="c")
    desk.tell().land(before).merge(most)
    start = desk.next_offset
    desk.land(after)
    if is_merged:
        desk.merge(most)
    with desk.store() as store:
        store.empty(TABLE, start)
    assert desk.merge(most).rows() == [(4, "d")]
    assert desk.land(Stream(at=3000).insert(id=5, note="e")).merge(most).rows() == [(4, "d"), (5, "e")]


@pytest.mark.parametrize("most", [1, 100])
def test_changes_resent_after_a_table_is_emptied_are_skipped(desk: Desk, most: int) -> None:
    desk.key = None
    before = Stream().insert(id=1, note="a").insert(id=2, note="b").commit().delete(id=1, note="a")
    desk.tell().land(before).merge(most)
    with desk.store() as store:
        assert store.empty(TABLE, desk.next_offset)
    # The connector was killed, and had not said how far it was.
    desk.land(before, Stream(at=2000).insert(id=3, note="c"))
    assert desk.merge(most).rows() == [(3, "c")]
    assert rebuild(desk.bench.dsn, *NAME) == ""
    assert desk.merge(most).rows() == [(3, "c")]


def test_not_where_what_came_since_is_trimmed(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a").insert(id=2, note="b")).merge()
    with desk.connected() as conn, conn, conn.cursor() as cursor:
        cursor.execute("UPDATE onramp.table_settings SET trimmed_to = 2")
    with desk.store() as store:
        assert not store.empty(TABLE, 1)
        assert store.empty(("app", "nothing_landed_of_it"), 1)
    assert desk.merge().rows() == [(1, "a"), (2, "b")]


def test_without_a_key_what_the_snapshot_has_seen_is_not_missed(desk: Desk) -> None:
    desk.key = None
    desk.tell().land(Stream().insert(id=1, note="a").insert(id=2, note="b").commit()).merge()
    start, token = desk.next_offset, str(UUID(int=7))
    with desk.connected() as conn, conn, conn.cursor() as cursor:
        cursor.execute(ASKED, (*NAME, start, token))
    # It saw no rows: these were committed between the asking and the reading.  The last one was not.
    stream = Stream(at=2000).delete(id=1, note="a").delete(id=2, note="b").commit().insert(id=3, note="c")
    with desk.store() as store:
        store.empty(TABLE, start, token)
    assert desk.land(stream).merge().rows() == [(3, "c")]
    assert rebuild(desk.bench.dsn, *NAME) == ""
    assert desk.merge().rows() == [(3, "c")]


@pytest.mark.parametrize("by_a_resync", [True, False])
def test_a_rebuild_does_not_bring_back_what_was_gone(desk: Desk, *, by_a_resync: bool) -> None:
    desk.tell().land(Stream().insert(id=1, note="gone").commit()).merge()
    desk.begin_again(by_a_resync=by_a_resync)
    assert desk.land(Stream(at=2000).insert(id=2, note="b")).merge().rows() == [(2, "b")]
    assert rebuild(desk.bench.dsn, *NAME) == ""
    assert desk.merge().rows() == [(2, "b")]


def test_a_resync_forgets_what_the_snapshot_before_it_had_seen(desk: Desk) -> None:
    desk.key = None
    desk.tell().land(Stream().insert(id=1, note="a").commit()).merge()
    with desk.connected() as conn, conn, conn.cursor() as cursor:
        cursor.execute("UPDATE onramp.table_settings SET snapshot = '9000:9000:', snapshot_before = '0/FFFF'")
    desk.begin_again(by_a_resync=True)
    # Of another server, whose ids and positions are lower.
    assert desk.land(Stream(at=2000).insert(id=2, note="b")).merge().rows() == [(2, "b")]


@pytest.mark.parametrize("most", [1, 100])
@pytest.mark.parametrize("is_longer", [True, False])
def test_a_resync_leaves_a_topic_that_was_made_again(desk: Desk, most: int, *, is_longer: bool) -> None:
    old = Stream()
    for i in range(1 if is_longer else 7):
        old.insert(id=i, note="old")
    desk.tell().land(old.commit()).merge(most)
    desk.make_topic_again()
    desk.land(Stream(at=2000).insert(id=20, note="while it was held").insert(id=21, note="and this"))
    with pytest.raises(SuspendedError, match="recreated"):
        desk.merge(most)
    desk.begin_again(by_a_resync=True)
    assert desk.merge(most).rows() == []
    desk.land(Stream(at=3000).insert(id=30, note="new").insert(id=31, note="new").update(id=30, note="newer"))
    assert desk.merge(most).rows() == [(30, "newer"), (31, "new")]
    assert rebuild(desk.bench.dsn, *NAME) == ""
    assert desk.merge(most).rows() == [(30, "newer"), (31, "new")]
    # What follows is told from a third one.
    desk.make_topic_again()
    with pytest.raises(SuspendedError, match="recreated"):
        desk.land(Stream(at=4000).insert(id=40, note="third")).merge(most)


@pytest.mark.parametrize("is_rebuilt", [True, False])
def test_parked_changes_of_a_deleted_topic_do_not_excuse_newly_parked_changes(
    desk: Desk, *, is_rebuilt: bool
) -> None:
    desk.tell().land(Stream().insert(id=1, note="\0").insert(id=2, note="b").commit())
    desk.bench.execute("UPDATE onramp.table_settings SET parked_known = 1")
    desk.merge()
    desk.make_topic_again()
    desk.begin_again(by_a_resync=True)
    desk.land(Stream(at=2000).insert(id=4, note="d")).merge()
    if is_rebuilt:
        assert rebuild(desk.bench.dsn, *NAME) == ""
        desk.merge()
    with pytest.raises(SuspendedError, match="parked"):
        desk.land(Stream(at=3000).insert(id=5, note="\0").insert(id=6, note="f")).merge()


@pytest.mark.parametrize("is_asked_twice", [True, False])
def test_recreated_topic_from_which_no_change_landed_is_reported_too(
    desk: Desk, *, is_asked_twice: bool
) -> None:
    desk.tell().land(Stream().insert(id=1, note="a").commit()).merge()
    with desk.store() as store:
        desk.make_topic_again()  # the writer has halted at it
        store.heal({TABLE: End(50, desk.topic_id)})
        store.save_streams(streams=True, ends={TABLE: End(50, desk.topic_id)})
        if not is_asked_twice:
            assert desk.merge().rows() == []
        desk.make_topic_again()
        desk.land(Stream(at=3000).insert(id=3, note="c"))
        with pytest.raises(SuspendedError, match="recreated"):
            desk.merge()
        store.heal({TABLE: desk.end()})
    assert desk.land(Stream(at=4000).snapshot([{"id": 3, "note": "c"}])).merge().rows() == [(3, "c")]


@pytest.mark.parametrize("has_key", [True, False])
def test_change_that_lands_between_a_re_snapshot_request_and_the_emptying_is_merged(
    desk: Desk, *, has_key: bool
) -> None:
    desk.key = ("id",) if has_key else None
    desk.tell().land(Stream().snapshot([{"id": i, "note": "old"} for i in range(3)])).merge()
    start = desk.next_offset
    desk.land(Stream(at=2000).insert(id=3, note="c"))
    with desk.store() as store:
        assert store.has_snapshots_end(TABLE, start) == (False, start + 1)
        store.empty(TABLE, start)
    assert desk.merge().rows() == [(3, "c")]


@pytest.mark.parametrize("by_a_resync", [True, False])
def test_a_table_that_the_modeler_does_not_know_yet_begins_empty_too(
    desk: Desk, *, by_a_resync: bool
) -> None:
    desk.prepare().land(Stream().snapshot([{"id": 1, "note": "gone"}]))
    desk.begin_again(by_a_resync=by_a_resync)
    assert desk.tell().merge().rows() == []
    assert desk.land(Stream(at=2000).insert(id=2, note="b")).merge().rows() == [(2, "b")]


def test_rebuild_succeeds_when_only_changes_before_its_start_are_trimmed(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a").insert(id=2, note="b").commit()).merge()
    desk.begin_again(by_a_resync=True)
    desk.land(Stream(at=2000).insert(id=3, note="c")).merge()
    desk.bench.execute("UPDATE onramp.table_settings SET trimmed_to = 2")
    assert rebuild(desk.bench.dsn, *NAME) == ""
    assert desk.merge().rows() == [(3, "c")]
    desk.bench.execute("UPDATE onramp.table_settings SET trimmed_to = 3")
    assert "trimmed" in rebuild(desk.bench.dsn, *NAME)
