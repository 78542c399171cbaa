"""A table that has lost all rows without an event: the public one begins empty, with what came since."""

from typing import Final
from uuid import UUID

import pytest

from services.elt.agent.kept_sql import KeptDatabase
from services.elt.setup.asked_sql import rebuild
from tests.fixtures.changes import Stream
from tests.integration.elt.desk import NAME, Desk

ASKED: Final = """
    INSERT INTO onramp.source_rereads (source, schema_name, table_name, start, token, seen, lsn, has_rows)
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
    kept = KeptDatabase("shop", "ONRAMP_SOURCE_SHOP", desk.bench.dsn)
    kept.empty(("app", "orders"), start)
    kept.close()
    assert desk.merge(most).rows() == [(4, "d")]
    assert desk.land(Stream(at=3000).insert(id=5, note="e")).merge(most).rows() == [(4, "d"), (5, "e")]


@pytest.mark.parametrize("most", [1, 100])
def test_what_is_sent_again_behind_it_is_known_to_be(desk: Desk, most: int) -> None:
    desk.key = None
    before = Stream().insert(id=1, note="a").insert(id=2, note="b").commit().delete(id=1, note="a")
    desk.tell().land(before).merge(most)
    kept = KeptDatabase("shop", "ONRAMP_SOURCE_SHOP", desk.bench.dsn)
    assert kept.empty(("app", "orders"), desk.next_offset)
    kept.close()
    # The connector was killed, and had not said how far it was.
    desk.land(before, Stream(at=2000).insert(id=3, note="c"))
    assert desk.merge(most).rows() == [(3, "c")]
    assert rebuild(desk.bench.dsn, *NAME) == ""
    assert desk.merge(most).rows() == [(3, "c")]


def test_not_where_what_came_since_is_trimmed(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a").insert(id=2, note="b")).merge()
    with desk.connected() as conn, conn, conn.cursor() as cursor:
        cursor.execute("UPDATE onramp.models SET trimmed_to = 2")
    kept = KeptDatabase("shop", "ONRAMP_SOURCE_SHOP", desk.bench.dsn)
    assert not kept.empty(("app", "orders"), 1)
    assert kept.empty(("app", "nothing_landed_of_it"), 1)
    kept.close()
    assert desk.merge().rows() == [(1, "a"), (2, "b")]


def test_without_a_key_what_the_snapshot_has_seen_is_not_missed(desk: Desk) -> None:
    desk.key = None
    desk.tell().land(Stream().insert(id=1, note="a").insert(id=2, note="b").commit()).merge()
    start, token = desk.next_offset, str(UUID(int=7))
    with desk.connected() as conn, conn, conn.cursor() as cursor:
        cursor.execute(ASKED, (*NAME, start, token))
    # It saw no rows: these were committed between the asking and the reading.  The last one was not.
    stream = Stream(at=2000).delete(id=1, note="a").delete(id=2, note="b").commit().insert(id=3, note="c")
    kept = KeptDatabase("shop", "ONRAMP_SOURCE_SHOP", desk.bench.dsn)
    kept.empty(("app", "orders"), start, token)
    kept.close()
    assert desk.land(stream).merge().rows() == [(3, "c")]
    assert rebuild(desk.bench.dsn, *NAME) == ""
    assert desk.merge().rows() == [(3, "c")]


@pytest.mark.parametrize("by_a_resync", [True, False])
def test_a_rebuild_does_not_bring_back_what_was_gone(desk: Desk, *, by_a_resync: bool) -> None:
    desk.tell().land(Stream().insert(id=1, note="gone").commit()).merge()
    kept = KeptDatabase("shop", "ONRAMP_SOURCE_SHOP", desk.bench.dsn)
    if by_a_resync:
        kept.heal({("app", "orders"): desk.next_offset})
    else:
        kept.empty(("app", "orders"), desk.next_offset)
    kept.close()
    assert desk.land(Stream(at=2000).insert(id=2, note="b")).merge().rows() == [(2, "b")]
    assert rebuild(desk.bench.dsn, *NAME) == ""
    assert desk.merge().rows() == [(2, "b")]


def test_a_resync_forgets_what_the_snapshot_before_it_had_seen(desk: Desk) -> None:
    desk.key = None
    desk.tell().land(Stream().insert(id=1, note="a").commit()).merge()
    with desk.connected() as conn, conn, conn.cursor() as cursor:
        cursor.execute("UPDATE onramp.models SET seen = '9000:9000:', seen_before = '0/FFFF'")
    kept = KeptDatabase("shop", "ONRAMP_SOURCE_SHOP", desk.bench.dsn)
    kept.heal({("app", "orders"): desk.next_offset})
    kept.close()
    # Of another server, whose ids and positions are lower.
    assert desk.land(Stream(at=2000).insert(id=2, note="b")).merge().rows() == [(2, "b")]
