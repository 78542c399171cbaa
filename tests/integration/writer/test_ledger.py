"""The ledger: claimed by the newest writer, compared before, advanced with the rows."""

from collections.abc import Iterator

import psycopg2
import pytest
from psycopg2.extensions import connection

from services.writer.settle import ledger
from shared.errors import FENCED, LEDGER_GAP, InfrastructureError
from shared.kafka_read.offsets import Generation, Partition, Range
from tests.fixtures.writer import PARTITION, TOPIC_ID, Bench

OTHER = Partition("events.other", 3)


@pytest.fixture
def conn(bench: Bench) -> Iterator[connection]:
    conn = psycopg2.connect(bench.dsn)
    yield conn
    conn.close()


def _range(start: int, end: int, partition: Partition = PARTITION) -> Range:
    return Range(TOPIC_ID, partition, start, end)


def test_a_claim_creates_a_missing_row_at_its_start(conn: connection) -> None:
    assert ledger.claim(conn, {Generation(TOPIC_ID, OTHER): 42}, 1) == {Generation(TOPIC_ID, OTHER): 42}


def test_a_claim_never_moves_a_row_that_is_there(conn: connection) -> None:
    ledger.advance(conn, [_range(0, 9)], 1, "one")
    assert ledger.claim(conn, {Generation(TOPIC_ID, PARTITION): 3}, 2) == {Generation(TOPIC_ID, PARTITION): 9}
    assert ledger.claim(conn, {Generation(TOPIC_ID, PARTITION): 30}, 3) == {
        Generation(TOPIC_ID, PARTITION): 9
    }


def test_a_claim_under_a_later_writers_is_fenced_and_does_not_take_it_back(conn: connection) -> None:
    ledger.claim(conn, {Generation(TOPIC_ID, PARTITION): 0}, 5)
    with pytest.raises(InfrastructureError) as refusal:
        ledger.claim(conn, {Generation(TOPIC_ID, PARTITION): 0}, 4)
    assert refusal.value.fault is FENCED
    ledger.lock(conn, [_range(0, 1)], 5)


def test_the_older_writer_cannot_lock_what_a_newer_one_has_claimed(conn: connection) -> None:
    ledger.claim(conn, {Generation(TOPIC_ID, PARTITION): 0}, 2)
    with pytest.raises(InfrastructureError) as refusal:
        ledger.lock(conn, [_range(0, 1)], 1)
    assert refusal.value.fault is FENCED


@pytest.mark.parametrize("start", [0, 3, 9])
def test_a_lock_says_what_is_settled_already(conn: connection, start: int) -> None:
    ledger.advance(conn, [_range(0, 9)], 1, "one")
    assert ledger.lock(conn, [_range(start, 20)], 1) == {PARTITION: 9}


def test_a_ledger_behind_the_range_is_a_gap(conn: connection) -> None:
    with pytest.raises(InfrastructureError, match=r"stands at 0, the range is \[1, 5\)") as refusal:
        ledger.lock(conn, [_range(1, 5)], 1)
    assert refusal.value.fault is LEDGER_GAP


def test_a_missing_row_is_a_gap_not_a_beginning(conn: connection) -> None:
    with pytest.raises(InfrastructureError, match="has no row") as refusal:
        ledger.lock(conn, [_range(0, 5, OTHER)], 1)
    assert refusal.value.fault is LEDGER_GAP


def test_a_topic_made_anew_under_its_name_is_another(conn: connection) -> None:
    ledger.advance(conn, [_range(0, 9)], 1, "one")
    anew = "00000000-0000-0000-0000-000000000008"
    assert ledger.claim(conn, {Generation(anew, PARTITION): 0}, 1) == {Generation(anew, PARTITION): 0}
    assert ledger.lock(conn, [Range(anew, PARTITION, 0, 5)], 1) == {PARTITION: 0}
    assert ledger.lock(conn, [_range(9, 12)], 1) == {PARTITION: 9}


def test_a_locked_row_makes_the_other_wait(bench: Bench, conn: connection) -> None:
    ledger.lock(conn, [_range(0, 5)], 1)
    with psycopg2.connect(bench.dsn) as second, second.cursor() as cursor:
        cursor.execute("SET lock_timeout = 50")
        with pytest.raises(psycopg2.errors.LockNotAvailable):
            ledger.lock(second, [_range(0, 5)], 1)
    second.close()


def test_advance_moves_only_its_ranges(bench: Bench, conn: connection) -> None:
    ledger.claim(conn, {Generation(TOPIC_ID, OTHER): 0}, 1)
    ledger.advance(conn, [_range(0, 5)], 1, "one")
    conn.commit()
    assert (bench.ledger(), bench.ledger(OTHER)) == (5, 0)


def test_nothing_to_lock_or_advance_is_no_error(conn: connection) -> None:
    assert ledger.lock(conn, [], 1) == {}
    ledger.advance(conn, [], 1, "one")


# --- under which routes -----------------------------------------------------------------------


def _history(conn: connection) -> list[tuple[int, int, str]]:
    """What is settled under which routes, as the audit reads it: the closed ranges, then the row's own."""
    with conn.cursor() as cursor:
        cursor.execute('SELECT start, "end", digest FROM onramp.settled_under ORDER BY id')
        closed = cursor.fetchall()
        cursor.execute("SELECT since, upto, digest FROM onramp.ledger")
        return [*closed, *cursor.fetchall()]


def _move(conn: connection, to: int) -> None:
    with conn.cursor() as cursor:
        cursor.execute("UPDATE onramp.ledger SET next_offset = %s", (to,))


def test_ranges_settled_under_earlier_routes_stay_in_the_history_when_routes_change(conn: connection) -> None:
    for end, digest in ((5, "one"), (9, "one"), (12, "two"), (20, "two"), (30, "one")):
        ledger.advance(conn, [_range(0, end)], 1, digest)
    assert _history(conn) == [(0, 9, "one"), (9, 20, "two"), (20, 30, "one")]


def test_a_ledger_of_before_says_nothing_of_what_it_does_not_know(conn: connection) -> None:
    _move(conn, 7)
    ledger.advance(conn, [_range(7, 9)], 1, "one")
    assert _history(conn) == [(7, 9, "one")]


@pytest.mark.parametrize("digest", ["one", "two"])
def test_offsets_skipped_by_a_manual_ledger_update_have_no_recorded_routes(
    conn: connection, digest: str
) -> None:
    ledger.advance(conn, [_range(0, 9)], 1, "one")
    _move(conn, 12)
    ledger.advance(conn, [_range(12, 20)], 1, digest)
    assert _history(conn) == [(0, 9, "one"), (12, 20, digest)]


def test_a_ledger_that_went_back_is_settled_again_from_there(conn: connection) -> None:
    for end, digest in ((5, "one"), (9, "two")):
        ledger.advance(conn, [_range(0, end)], 1, digest)
    _move(conn, 7)
    ledger.advance(conn, [_range(7, 9)], 1, "three")
    _move(conn, 3)
    ledger.advance(conn, [_range(3, 20)], 1, "four")
    assert _history(conn) == [(0, 5, "one"), (5, 7, "two"), (3, 20, "four")]


def test_a_restored_ledger_is_settled_again_to_where_it_was(conn: connection) -> None:
    ledger.advance(conn, [_range(0, 9)], 1, "one")
    _move(conn, 3)
    ledger.advance(conn, [_range(3, 9)], 1, "one")
    assert ledger.lock(conn, [_range(9, 12)], 1) == {PARTITION: 9}
    assert _history(conn) == [(0, 3, "one"), (3, 9, "one")]


def test_ranges_of_other_partitions_go_on_beside_one_that_begins_anew(conn: connection) -> None:
    ledger.claim(conn, {Generation(TOPIC_ID, OTHER): 0}, 1)
    ledger.advance(conn, [_range(0, 9)], 1, "one")
    ledger.advance(conn, [_range(9, 12), _range(0, 4, OTHER)], 1, "one")
    assert sorted(_history(conn)) == [(0, 4, "one"), (0, 12, "one")]


def test_offsets_skipped_by_the_writer_have_no_recorded_routes(conn: connection) -> None:
    ledger.advance(conn, [_range(0, 9)], 1, "one")
    ledger.skip(conn, [_range(9, 12)], 1)
    assert ledger.lock(conn, [_range(12, 20)], 1) == {PARTITION: 12}
    ledger.advance(conn, [_range(12, 20)], 1, "one")
    assert _history(conn) == [(0, 9, "one"), (12, 20, "one")]
