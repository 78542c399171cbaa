"""Releases: rows of all topic generations and kinds land together, and dead rows are not read twice."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import orjson
import psycopg2
import pytest

from services.writer.park import outbox, parked_topic
from services.writer.park.parked_topic import ParkedRecord
from services.writer.postgres import pool
from services.writer.postgres.pool import transaction
from services.writer.waiting import release
from shared.kafka_security import Brokers
from tests.fixtures.writer import PARTITION, TOPIC_ID, Bench, envelope, event, eventually
from tests.integration.writer.waiting_bench import Hall

#: Index entries for one event: twice what it takes, and far less than a walk over the dead.
_FEW = 4


def _bad(event_id: str) -> bytes:
    return envelope(event_id, "order_placed", b'{"id":"%b","a":"\\u0000"}' % event_id.encode())


def _packet(event_id: str) -> bytes:
    """A packet for the landing table of `order_placed`."""
    named = [{"type": "postgres", "vanity": "onramp", "schema": "events", "table": "order_placed"}]
    columns = {
        "_id": event_id,
        "_event_name": "order_placed",
        "_timestamp": "2026-01-01T00:00:00Z",
        "_version": "1",
        "payload": {"x": 1},
    }
    return orjson.dumps({"pipeline_context": {"destinations": named}, "data": columns})


def _parked(offset: int) -> ParkedRecord:
    return ParkedRecord(PARTITION, offset, destination="onramp.events.t", value=b"{}", error=b"{}")


def test_the_events_of_a_topic_that_was_made_anew_are_released_beside_the_old_ones(hall: Hall) -> None:
    hall.settle(event("first"))
    with hall.locked():
        hall.settle(_bad("old-1"), event("old-2"))
        hall.make_topic_anew()
        hall.settle(event("new-0"), _bad("new-1"), event("new-2"))
    assert hall.release() == []
    assert sorted(hall.landed()) == ["first", "new-0", "new-2", "old-2"]
    parked = hall.bench.rows('SELECT topic_id::text, "offset", value FROM onramp.outbox')
    assert sorted((i, o, bytes(value)) for i, o, value in parked) == sorted(
        [(TOPIC_ID, 1, _bad("old-1")), (hall.topic_id, 1, _bad("new-1"))]
    )
    by_generation = hall.bench.rows(
        "SELECT topic_id::text, outcome, events::int FROM onramp.totals WHERE events <> 0"
    )
    assert sorted(by_generation) == sorted(
        [
            (TOPIC_ID, "landed", 2),
            (TOPIC_ID, "parked", 1),
            (hall.topic_id, "landed", 2),
            (hall.topic_id, "parked", 1),
        ]
    )


def test_packets_for_a_landing_table_are_released_beside_its_own_events(hall: Hall) -> None:
    hall.settle(event("a"))
    with hall.locked():
        hall.settle(event("b"), _packet("p"), event("c"))
        assert hall.waiting() == [1, 2, 3]
    assert hall.release() == []
    assert sorted(hall.landed()) == ["a", "b", "c", "p"]
    assert (hall.parked(), hall.totals()) == ([], {"landed": 4})


def test_a_release_walks_over_no_dead_row_twice(hall: Hall) -> None:
    hall.settle(event("first"))
    with hall.locked():
        hall.settle(event("one"))
    hall.settle(*(event(f"e-{n}") for n in range(4_000)))
    before = _entries(hall.bench, "waiting")
    with _somebody_reads(hall.bench):
        assert hall.release(at_once=20) == []
    assert hall.totals() == {"landed": 4_002}
    assert (_entries(hall.bench, "waiting") - before) / 4_000 < _FEW


@contextmanager
def _somebody_reads(bench: Bench) -> Iterator[None]:
    """A backup, a long report: while it reads, no dead row of the whole database is tidied away."""
    with closing(psycopg2.connect(bench.dsn)) as reader, reader.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM onramp.ledger")
        yield


def _entries(bench: Bench, table: str) -> int:
    """How many rows and index entries of `table` were read so far, dead ones too."""
    pool.close_all()
    writers = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    eventually(lambda: not bench.rows(writers))
    return int(
        bench.one(
            "SELECT seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes i "
            "WHERE i.relid = t.relid) FROM pg_stat_user_tables t WHERE t.relid = %s::regclass",
            f"onramp.{table}",
        )
    )


def test_events_that_come_during_a_release_are_released_by_it(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those whose keys are below where it stands."""
    hall.settle(event("a"))
    with hall.locked():
        hall.settle(*(event(f"e-{n}") for n in range(4)))
    reached: list[str] = []

    def come(name: str) -> None:
        reached.append(name)
        if len(reached) == 2:
            hall.bench.execute(
                "INSERT INTO onramp.waiting SELECT topic_id, topic, partition, 0, destination, db_schema, "
                "db_table, typed, event_type, code, replace(convert_from(value, 'UTF8'), 'e-3', 'late')"
                '::bytea, received_at, timestamp FROM onramp.waiting WHERE "offset" = 4'
            )

    monkeypatch.setattr(release.failpoints, "reach", come)
    assert hall.release(at_once=2) == []
    assert hall.landed() == ["a", "e-0", "e-1", "e-2", "e-3", "late"]


def test_a_relay_walks_over_no_dead_row_twice(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record once, in order."""
    published: list[int] = []

    def publish(_: Brokers, records: list[ParkedRecord]) -> None:
        published.extend(r.offset for r in records)

    monkeypatch.setattr(parked_topic, "publish", publish)
    monkeypatch.setattr(outbox, "_PAGE_ROWS", 20)
    with transaction(bench.database, "driver") as conn:
        for offset in range(4_000):
            outbox.add(conn, TOPIC_ID, _parked(offset))
    before = _entries(bench, "outbox")
    with _somebody_reads(bench):
        assert outbox.relay(bench.database, Brokers(bench.bootstrap)) == 4_000
    assert published == list(range(4_000))
    assert (_entries(bench, "outbox") - before) / 4_000 < _FEW


def test_event_parked_during_a_relay_is_published_by_the_same_relay(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also below where it stands."""
    published: list[int] = []

    def park(offset: int) -> None:
        with transaction(bench.database, "driver") as conn:
            outbox.add(conn, TOPIC_ID, _parked(offset))

    def publish(_: Brokers, records: list[ParkedRecord]) -> None:
        published.extend(r.offset for r in records)
        if len(published) == 4:
            park(0)

    monkeypatch.setattr(parked_topic, "publish", publish)
    monkeypatch.setattr(outbox, "_PAGE_ROWS", 2)
    for offset in range(1, 6):
        park(offset)
    assert outbox.relay(bench.database, Brokers(bench.bootstrap)) == 6
    assert sorted(published) == [0, 1, 2, 3, 4, 5]
