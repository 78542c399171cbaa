"""Re-snapshot of tables without a key: changes visible to the snapshot that arrive after it are skipped."""

from typing import Final

import pytest

from services.cdc.merge.suspended import SuspendedError
from services.cdc.setup.source_requests_sql import rebuild
from tests.fixtures.changes import Stream
from tests.integration.cdc.merge_bench import NAME, Desk

ASKED: Final = """
    INSERT INTO onramp.source_resnapshots (source, schema_name, table_name, start, token)
    VALUES (%s, %s, %s, %s, gen_random_uuid()) RETURNING id
"""
TOLD: Final = "UPDATE onramp.source_resnapshots SET snapshot = %s, lsn = '0/0'::pg_lsn + %s WHERE id = %s"
#: Where the second of two rounds of ids begins.
ROUND: Final = 1 << 32


@pytest.fixture
def keyless(desk: Desk) -> Desk:
    """Rows of it are known by all of their values."""
    desk.key = None
    return desk.tell()


def _asked(desk: Desk) -> int:
    """Request a snapshot that begins here; return its identity."""
    with desk.connected() as conn, conn, conn.cursor() as cursor:
        cursor.execute(ASKED, (*NAME, desk.next_offset))
        (number,) = cursor.fetchone() or (0,)
    return int(number)


def _told(desk: Desk, number: int, seen: str, before: int) -> None:
    with desk.connected() as conn, conn, conn.cursor() as cursor:
        cursor.execute(TOLD, (seen, before, number))


def _before() -> Stream:
    """Changes before the snapshot: rows 1 and 2, by the transactions 1000 and 1100."""
    return Stream().insert(id=1, note="a").commit().insert(id=2, note="b").commit()


def _snapshot() -> Stream:
    """It has seen all transactions before 1300, and 1400; its message is at 1450."""
    rows = [{"id": 2, "note": "x"}, {"id": 3, "note": "c"}, {"id": 3, "note": "c"}, {"id": 5, "note": "e"}]
    return Stream(at=1500).snapshot(rows)


def _behind() -> Stream:
    """The stream continues at its position 1200, which the snapshot's rows include."""
    stream = (
        Stream(at=1200)
        .insert(id=3, note="c")
        .insert(id=3, note="c")
        .update({"id": 2, "note": "b"}, id=2, note="x")
    )
    stream.delete(id=1, note="a").commit()
    # It was open then, and its commit is before the message.
    stream.insert(id=4, note="d").commit()
    stream.insert(id=5, note="e").commit()
    # From here on nobody has seen anything.
    return stream.insert(id=6, note="f").delete(id=3, note="c").commit().insert(id=7, note="g")


ROWS: Final = [(2, "x"), (3, "c"), (4, "d"), (5, "e"), (6, "f"), (7, "g")]


@pytest.mark.parametrize("most", [1, 2, 3, 100])
@pytest.mark.parametrize("at_once", [True, False])
def test_changes_visible_to_the_snapshot_are_not_applied_twice(
    keyless: Desk, most: int, *, at_once: bool
) -> None:
    keyless.land(_before())
    _told(keyless, _asked(keyless), "1300:1500:1300", 1450)
    for each in (_snapshot(), _behind()):
        keyless.land(each)
        if not at_once:
            keyless.merge(most)
    assert keyless.merge(most).rows() == ROWS
    assert keyless.bench.rows("SELECT snapshot, snapshot_before FROM onramp.table_settings") == [(None, None)]


def test_merge_waits_until_the_agent_has_recorded_the_snapshots_visibility(keyless: Desk) -> None:
    keyless.land(_before())
    _told(keyless, _asked(keyless), "1:1:", 1)  # another one's: it was cut off before its first row
    asked = _asked(keyless)
    keyless.land(_snapshot(), _behind())
    _told(keyless, _asked(keyless), "1:1:", 1)  # a later one's
    with pytest.raises(SuspendedError, match="onramp sources resync shop"):
        keyless.merge()
    assert keyless.rows() == [(1, "a"), (2, "b")]  # what came before does not wait
    _told(keyless, asked, "1300:1500:1300", 1450)
    assert keyless.merge().rows() == ROWS


def test_snapshot_cut_off_before_its_first_row_does_not_hold_up_the_merge(keyless: Desk) -> None:
    keyless.land(_before())
    _asked(keyless)
    _told(keyless, _asked(keyless), "1300:1500:1300", 1450)
    keyless.land(_snapshot(), _behind())
    assert keyless.merge().rows() == ROWS


@pytest.mark.parametrize("most", [1, 2, 100])
def test_snapshot_cut_off_midway_is_skipped_once_another_snapshot_has_arrived(
    keyless: Desk, most: int
) -> None:
    keyless.land(_before())
    _asked(keyless)
    cut_off = Stream(at=1500).snapshot([{"id": n, "note": "cut"} for n in range(3)])
    del cut_off.values[2]
    keyless.land(cut_off)
    again = _asked(keyless)
    keyless.land(_snapshot(), _behind())
    with pytest.raises(SuspendedError, match="onramp sources resync shop"):
        keyless.merge(most)
    assert keyless.rows() == [(1, "a"), (2, "b")]
    _told(keyless, again, "1300:1500:1300", 1450)
    assert keyless.merge(most).rows() == ROWS


def test_first_snapshot_is_merged_without_recorded_visibility(keyless: Desk) -> None:
    keyless.land(Stream(at=900).snapshot([{"id": 1, "note": "a"}]), Stream().insert(id=2, note="b"))
    _asked(keyless)
    assert keyless.merge().rows() == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("most", [1, 100])
def test_changes_resent_after_a_snapshot_are_not_applied_twice(keyless: Desk, most: int) -> None:
    keyless.land(_before())
    _told(keyless, _asked(keyless), "1300:1500:1300", 1450)
    keyless.land(_snapshot(), _behind()).merge(most)
    # The connector was killed, and had not said how far it was.
    keyless.land(_behind()).merge(most)
    assert keyless.rows() == ROWS


def test_a_truncate_that_was_seen_empties_nothing(keyless: Desk) -> None:
    keyless.land(_before())
    _told(keyless, _asked(keyless), "1500:1500:", 1450)
    keyless.land(Stream(at=1500).snapshot([{"id": 3, "note": "c"}]))
    keyless.land(Stream(at=1200).truncate().commit().insert(id=3, note="c").commit())
    assert keyless.merge().rows() == [(3, "c")]
    keyless.land(Stream(at=1600).truncate().insert(id=4, note="d"))
    assert keyless.merge().rows() == [(4, "d")]


@pytest.mark.parametrize(
    ("xid", "seen", "is_seen"),
    [
        (50, f"{ROUND + 100}:{ROUND + 200}:", True),
        (ROUND - 6, f"{ROUND + 100}:{ROUND + 200}:", True),
        (150, f"{ROUND + 100}:{ROUND + 200}:{ROUND + 150}", False),
        (151, f"{ROUND + 100}:{ROUND + 200}:{ROUND + 150}", True),
        (200, f"{ROUND + 100}:{ROUND + 200}:", False),
        (ROUND - 6, f"{ROUND - 8}:{ROUND - 7}:", False),
        (5, f"{ROUND - 8}:{ROUND - 7}:", False),
        (ROUND - 9, f"{ROUND - 8}:{ROUND - 7}:", True),
        (3, "5:7:", True),
        (8, "5:7:", False),
    ],
)
def test_a_change_has_the_lower_half_of_its_transactions_id(
    keyless: Desk, xid: int, seen: str, *, is_seen: bool
) -> None:
    _told(keyless, _asked(keyless), seen, 5000)
    keyless.land(Stream(at=5000).snapshot([{"id": 1, "note": "a"}]), Stream(xid=xid).insert(id=1, note="a"))
    assert len(keyless.merge().rows()) == 2 - is_seen


def test_transaction_id_reused_long_after_a_snapshot_is_not_taken_as_visible_to_it(keyless: Desk) -> None:
    _told(keyless, _asked(keyless), "5000:5000:", 5000)
    keyless.land(Stream(at=5000).snapshot([{"id": 1, "note": "a"}])).merge()
    assert keyless.bench.rows("SELECT snapshot::text FROM onramp.table_settings") == [("5000:5000:",)]
    keyless.land(Stream(at=6000, xid=70).insert(id=1, note="a")).merge()
    assert keyless.rows() == [(1, "a"), (1, "a")]


def test_a_rebuild_passes_over_the_same(keyless: Desk) -> None:
    keyless.land(_before()).merge()
    _told(keyless, _asked(keyless), "1300:1500:1300", 1450)
    keyless.land(_snapshot(), _behind()).merge(2)
    assert rebuild(keyless.bench.dsn, *NAME) == ""
    assert keyless.merge(2).rows() == ROWS
