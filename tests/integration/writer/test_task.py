"""SETTLE, without Spark: a task's rows and its ledger move together or not at all."""

import threading
from contextlib import suppress
from uuid import uuid4

import psycopg2
import pytest

from services.writer.model.routes import Contract, Routes
from services.writer.observe import database_stats
from shared import failpoints, wire
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from shared.kafka_read.offsets import Partition
from tests.fixtures.writer import PARTITION, TOPIC_ID, Bench, Landed, arrivals, envelope, event, eventually
from tests.integration.writer.waiting_bench import Hall

OTHER = Partition("events.order_placed", 1)
BAD = b'{"a":"\\u0000"}'


def _events(n: int, first: int = 0) -> list[bytes]:
    return [event(f"order-{i}") for i in range(first, first + n)]


def _count(bench: Bench) -> int:
    return int(bench.one("SELECT count(*) FROM events.order_placed"))


def test_rows_ledger_and_totals_move_together(bench: Bench) -> None:
    assert bench.settle(arrivals(_events(10))) == Landed((), 10, 0)
    assert (_count(bench), bench.ledger(), bench.totals()) == (10, 10, {"landed": 10})


def test_a_row_says_where_it_came_from(bench: Bench) -> None:
    bench.settle(arrivals([event("order-7", gate=4)]))
    (row,) = bench.rows(
        "SELECT _id, _event_name, _timestamp::text, _version, _received_at::text, "
        "_topic, _partition, _offset, payload FROM events.order_placed"
    )
    when = ("2026-11-21 08:00:00+00", "2026-11-21 08:00:01+00")
    zone = bench.one("SHOW timezone")
    assert zone in ("UTC", "Etc/UTC", "GMT")
    assert row == ("order-7", "order_placed", when[0], "1", when[1], *PARTITION, 0, {"gate": 4})


def test_a_task_that_runs_twice_lands_once(bench: Bench) -> None:
    bench.settle(arrivals(_events(10)))
    bench.settle(arrivals(_events(10)))
    assert (_count(bench), bench.ledger(), bench.totals()) == (10, 10, {"landed": 10})


def test_a_task_that_runs_twice_lands_once_without_any_key(bench: Bench) -> None:
    bench.settle(arrivals(_events(1)))
    bench.execute("ALTER TABLE events.order_placed DROP CONSTRAINT order_placed_pkey")
    for _ in range(2):
        bench.settle(arrivals(_events(9, 1), first=1))
    assert (_count(bench), bench.totals()) == (10, {"landed": 10})


def test_a_ledger_ahead_skips_the_settled_prefix_and_lands_the_rest(bench: Bench) -> None:
    bench.settle(arrivals(_events(6)))
    assert bench.settle(arrivals(_events(10))).failures == ()
    assert (_count(bench), bench.ledger(), bench.totals()) == (10, 10, {"landed": 10})


def test_a_range_that_ends_before_the_ledger_never_moves_it_back(bench: Bench) -> None:
    bench.settle(arrivals(_events(10)))
    assert bench.settle(arrivals(_events(4))).failures == ()
    assert (_count(bench), bench.ledger()) == (10, 10)


def test_a_gap_lands_nothing(bench: Bench) -> None:
    assert bench.settle(arrivals(_events(5), first=3)).failures == ("ledger_gap",)
    assert (bench.ledger(), bench.totals()) == (0, {})


def test_an_older_writer_lands_nothing(bench: Bench) -> None:
    Bench(bench.dsn, epoch=2).claim()
    assert bench.settle(arrivals(_events(5))).failures == ("fenced",)
    assert (bench.ledger(), bench.totals()) == (0, {})


def test_the_ranges_of_one_task_are_all_advanced(bench: Bench) -> None:
    bench.claim([OTHER])
    done = bench.settle(
        arrivals(_events(5)), arrivals(_events(5, 100), partition=OTHER), arrivals(_events(5, 5), first=5)
    )
    assert done.read == 15
    assert (_count(bench), bench.ledger(), bench.ledger(OTHER)) == (15, 10, 5)


def test_a_range_that_ends_in_transaction_markers_is_advanced_to_its_end(bench: Bench) -> None:
    bench.settle(arrivals(_events(5)), ranges={PARTITION: (0, 8)})
    assert bench.ledger() == 8


def test_a_task_of_which_no_record_arrives_reports_nothing(bench: Bench) -> None:
    assert bench.settle(ranges={PARTITION: (0, 2)}) == Landed((), 0, 0)
    assert bench.ledger() == 0


@pytest.mark.parametrize("place", ["writer.after_copy", "writer.before_commit"])
@pytest.mark.parametrize("error", [RuntimeError("bang"), InfrastructureError(DATABASE_UNAVAILABLE, "bang")])
def test_an_error_in_the_middle_rolls_everything_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, place: str, error: Exception
) -> None:
    reached = []

    def reach(name: str) -> None:
        if name == place:
            reached.append(name)
            raise error

    values = [*_events(5), envelope("bad", payload=BAD)]
    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", reach)
        with suppress(RuntimeError):
            assert bench.settle(arrivals(values)).failures == ("database_unavailable",)
    assert reached == [place]
    left = (_count(bench), bench.ledger(), bench.totals(), bench.rows("SELECT 1 FROM onramp.outbox"))
    assert left == (0, 0, {}, [])
    bench.settle(arrivals(values))
    assert (_count(bench), bench.ledger(), bench.totals()) == (5, 6, {"landed": 5, "parked": 1})


def test_after_the_commit_everything_has_moved_whatever_happens_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def look(name: str) -> None:
        if name == "writer.after_commit":
            seen.extend((_count(bench), bench.ledger(), bench.totals()))
            raise RuntimeError(name)

    values = [*_events(5), envelope("bad", payload=BAD)]
    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", look)
        with pytest.raises(RuntimeError):
            bench.settle(arrivals(values))
    assert seen == [5, 6, {"landed": 5, "parked": 1}]
    assert bench.one("SELECT count(*) FROM onramp.outbox") == 1


def test_a_twin_task_waits_for_the_first_and_lands_nothing_of_its_rows(bench: Bench) -> None:
    twin = psycopg2.connect(bench.dsn)
    with twin.cursor() as cursor:
        cursor.execute("SELECT 1 FROM onramp.ledger WHERE topic_id = %s FOR UPDATE", (TOPIC_ID,))
        late = threading.Thread(target=bench.settle, args=[arrivals(_events(10))])
        late.start()
        eventually(
            lambda: bench.rows(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND datname = current_database()"
            )
        )
        cursor.execute("UPDATE onramp.ledger SET next_offset = 10")
    twin.commit()
    twin.close()
    late.join(30)
    assert not late.is_alive()
    assert (bench.ledger(), bench.totals()) == (10, {})


def test_a_connection_lost_in_the_middle_is_an_outage_and_lands_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(name: str) -> None:
        if name == "writer.after_copy":
            bench.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                "AND datname = current_database() AND state = 'idle in transaction'"
            )

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", cut)
        assert bench.settle(arrivals(_events(5))).failures == ("database_unavailable",)
    assert (bench.ledger(), bench.totals()) == (0, {})
    assert bench.settle(arrivals(_events(5))).failures == ()
    assert _count(bench) == 5


def test_task_that_cannot_connect_reports_a_failure_for_its_ranges(bench: Bench, limited: Bench) -> None:
    """A silent task would look like ranges without records, and the driver would settle them."""
    bench.execute(f"ALTER ROLE {limited.user} CONNECTION LIMIT 0")
    assert limited.settle(arrivals(_events(5))).failures == ("database_unavailable",)


def test_warnings_are_counted_in_the_transaction_of_their_rows(bench: Bench) -> None:
    bench.execute("CREATE TABLE public.bare (v int); CREATE TABLE public.loose (id int PRIMARY KEY)")
    routes = Routes("onramp", contracts=(Contract("discard", table="loose"),))

    def to(table: str, data: str) -> bytes:
        named = f'{{"type":"postgres","vanity":"onramp","schema":"public","table":"{table}"}}'
        return f'{{"pipeline_context":{{"destinations":[{named}]}},"data":{data}}}'.encode()

    values = [to("bare", '{"v":1}'), to("bare", '{"v":"x"}'), to("loose", '{"id":1,"x":1,"y":1}')]
    for _ in range(2):  # a task that runs twice counts once
        assert bench.settle(arrivals(values), routes=routes).failures == ()
    bench.settle(arrivals([to("loose", '{"id":2,"x":1}')], first=3), routes=routes)
    assert bench.rows("SELECT destination, remark, count FROM onramp.warnings ORDER BY 1") == [
        ("public.bare", "unkeyed", 1),
        ("public.loose", "discarded_fields", 3),
    ]


def test_the_probe_lands_and_is_not_counted(bench: Bench) -> None:
    bench.settle(arrivals([event("probe", "onramp_probe")]))
    assert bench.one("SELECT count(*) FROM events.onramp_probe") == 1
    assert bench.totals() == {}


def test_duplicates_of_the_probe_are_counted_on_its_own_topic_for_the_tracer_alone(bench: Bench) -> None:
    topic = Partition(wire.topic_of(wire.PROBE_EVENT), 0)
    topic_id = str(uuid4())
    bench.claim([topic], topic_id=topic_id)
    probe = event("probe", wire.PROBE_EVENT)
    taken = bench.settle(arrivals([probe, probe], partition=topic), topic_id=topic_id)
    assert (taken.failures, taken.read) == ((), 2)
    assert bench.settle(arrivals([probe])).failures == ()  # of another topic, whose totals have no probes
    assert bench.rows("SELECT topic, destination, outcome, events FROM onramp.totals") == [
        (topic.topic, "events.onramp_probe", "duplicate", 1)
    ]
    assert bench.one("SELECT count(*) FROM onramp.routed") == 0
    assert database_stats.read(bench.database).totals == {}


def test_only_events_that_the_table_took_were_committed_after_a_time(hall: Hall) -> None:
    """Not those that are parked, wait behind a hold or a pause, or were there already."""
    hall.settle(event("first"))
    bad = [envelope(f"bad-{n}", "order_placed", BAD) for n in range(30)]
    taken = hall.settle(bad[0], event("a"), event("probe", "onramp_probe"), event("b"), event("first"))
    assert taken.delays == {"events.order_placed": 2}
    with hall.locked():
        held = hall.settle(event("c"), event("d", "other"))
    assert held.delays == {"events.other": 1}
    assert hall.release() == []
    assert hall.settle(*bad, event("e")).delays == {"events.order_placed": 1}
    assert hall.held() == {"order_placed": "paused"}
    assert hall.settle(event("f")).delays == {}
