"""Holds, without Spark: a blocked table's and a paused type's events wait, and then land once, in order."""

from itertools import pairwise
from typing import Any

import orjson
import pytest

from services.writer.batching.row_rates import RateLimiter
from services.writer.model.routes import EventRoute, Routes
from services.writer.postgres.pool import transaction
from services.writer.settle import holds, waiting_table
from services.writer.waiting import release
from services.writer.waiting.release import Release
from shared import failpoints
from shared.kafka_read.offsets import Partition
from tests.fixtures.inline import KilledError
from tests.fixtures.writer import arrivals, database_of, envelope, event
from tests.integration.writer.waiting_bench import LIMIT, Hall

OTHER = Partition("events.order_placed", 1)


def _bad(event_id: str, name: str = "order_placed") -> bytes:
    return envelope(event_id, name, b'{"a":"\\u0000"}')


# --- a blocked table ----------------------------------------------------------------------------


def test_a_locked_tables_events_wait_and_the_rest_of_the_partition_lands(hall: Hall) -> None:
    hall.settle(event("a"))
    with hall.locked():
        hall.settle(event("b"), event("other-1", "other"), event("c"))
        assert hall.landed("other") == ["other-1"]
        assert (hall.bench.ledger(), hall.waiting(), hall.held()) == (
            4,
            [1, 3],
            {"events.order_placed": "blocked"},
        )
        assert hall.totals() == {"landed": 2, "waiting": 2}
        assert hall.release() == ["events.order_placed"]  # it is still locked
    assert hall.release() == []
    assert (hall.landed(), hall.waiting(), hall.held()) == (["a", "b", "c"], [], {})
    assert (hall.totals(), hall.parked()) == ({"landed": 4}, [])


def test_a_release_keeps_to_its_databases_rows_per_second(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall.settle(event("first"))
    with hall.locked():
        hall.settle(*(event(f"e-{n}") for n in range(23)))
    now = 0.0
    landed: list[int] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        landed.append(len(hall.landed()) - 1)

    monkeypatch.setattr(release.time, "sleep", sleep)
    database = database_of(hall.bench.dsn, **hall.settings)
    rates = RateLimiter({database.name: 5.0}, lambda: now)
    assert Release(database, rates).run(Routes("onramp")) == []
    assert len(hall.landed()) == 24
    assert max(after - before for before, after in pairwise(landed)) == 5
    assert now >= (23 - 5) / 5 - 1


def test_later_events_queue_behind_those_that_wait(hall: Hall) -> None:
    hall.settle(event("a"))
    with hall.locked():
        hall.settle(event("b"))
    hall.settle(event("c"))  # the lock is gone, and b has not landed yet
    assert (hall.landed(), hall.waiting()) == (["a"], [1, 2])
    assert hall.release(at_once=1) == []
    hall.settle(event("d"))
    assert hall.landed() == ["a", "b", "c", "d"]


def test_a_known_block_costs_no_second_wait(hall: Hall, statements: list[str]) -> None:
    hall.settle(event("a"))
    with hall.locked():
        hall.settle(event("b"))
        statements.clear()
        hall.settle(event("c"))
    assert not [s for s in statements if "COPY" in s or "ROLLBACK" in s]


def test_a_release_that_dies_is_begun_again_and_lands_once(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall.settle(event("a"))
    with hall.locked():
        hall.settle(event("b"))
    hall.bench.execute("ALTER TABLE events.order_placed DROP CONSTRAINT order_placed_pkey")

    def die(name: str) -> None:
        assert name == "writer.mid_release"
        raise KilledError(name)

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", die)
        with pytest.raises(KilledError):
            hall.release()
    assert (hall.landed(), hall.waiting()) == (["a"], [1])
    assert hall.release() == []
    assert (hall.landed(), hall.totals()) == (["a", "b"], {"landed": 2})


def test_a_hold_does_not_end_while_a_task_looks_at_it(hall: Hall) -> None:
    hall.settle(event("a"))
    with hall.locked():
        hall.settle(event("b"))
    with transaction(hall.bench.database, "land") as conn:
        holds.read_shared(conn, {})
        assert hall.release() == ["events.order_placed"]  # b landed, and the task may add another
    assert hall.release() == []


def test_bad_waiting_event_is_parked_alone_and_the_other_waiting_events_land(hall: Hall) -> None:
    hall.settle(event("a"))
    with hall.locked():
        hall.settle(event("b"), _bad("bad"), event("b"))
    assert hall.release() == []
    assert (hall.landed(), hall.parked()) == (["a", "b"], [2])
    assert hall.totals() == {"landed": 2, "duplicate": 1, "parked": 1}


def test_a_packets_table_and_two_partitions_keep_their_own_order(hall: Hall) -> None:
    hall.bench.claim([OTHER])
    hall.bench.execute("CREATE TABLE public.t (id int PRIMARY KEY, n int)")
    hall.settle(_packet(id=0))
    with hall.locked("public.t"):
        hall.settle(_packet(id=1), _packet(id=2))
        hall.settle(_packet(id=3), partition=OTHER)
    hall.settle(_packet(id=4))
    assert hall.release(at_once=2) == []
    ids = [i for (i,) in hall.bench.rows("SELECT id FROM public.t ORDER BY ctid")]
    assert [i for i in ids if i != 3] == [0, 1, 2, 4]
    assert sorted(ids) == [0, 1, 2, 3, 4]


def test_a_deadlock_is_run_again_and_nothing_waits(hall: Hall) -> None:
    hall.settle(event("a"))
    hall.bench.execute(
        "CREATE SEQUENCE public.once; GRANT USAGE ON SEQUENCE public.once TO public;"
        "CREATE FUNCTION public.race() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF nextval('public.once') = 1 THEN RAISE EXCEPTION USING ERRCODE = '40P01'; END IF; "
        "RETURN NEW; END $$;"
        "CREATE TRIGGER race BEFORE INSERT ON events.order_placed FOR EACH ROW EXECUTE FUNCTION public.race()"
    )
    hall.settle(event("b"))
    assert (hall.landed(), hall.waiting(), hall.held()) == (["a", "b"], [], {})


# --- 57014: twice waiting, then isolated ---------------------------------------------------------


def _slow(hall: Hall, condition: str) -> None:
    hall.bench.execute(
        "CREATE OR REPLACE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF {condition} THEN PERFORM pg_sleep(60); END IF; RETURN NEW; END $$;"
        "DROP TRIGGER IF EXISTS slow ON events.order_placed;"
        "CREATE TRIGGER slow BEFORE INSERT ON events.order_placed FOR EACH ROW EXECUTE FUNCTION public.slow()"
    )


def test_a_row_that_runs_out_of_time_waits_twice_and_is_then_parked_alone(hall: Hall) -> None:
    hall.settle(event("a"))
    _slow(hall, "NEW._id = 'c'")
    hall.hurry()
    hall.settle(event("b"), event("c"), event("d"))
    assert (hall.waiting(), hall.parked()) == ([1, 2, 3], [])
    assert hall.release() == ["events.order_placed"]
    assert (hall.waiting(), hall.parked()) == ([1, 2, 3], [])
    assert hall.release() == []
    assert (hall.landed(), hall.waiting(), hall.parked()) == (["a", "b", "d"], [], [2])
    assert hall.totals() == {"landed": 3, "parked": 1}


def test_two_such_rows_beside_each_other_are_both_found(hall: Hall) -> None:
    hall.settle(event("a"))
    _slow(hall, "NEW._id IN ('c', 'd')")
    hall.hurry()
    hall.settle(event("b"), event("c"), event("d"), event("e"))
    assert hall.release() == ["events.order_placed"]
    assert hall.release() == []
    assert (hall.landed(), hall.waiting(), hall.parked()) == (["a", "b", "e"], [], [2, 3])


def test_a_table_on_which_everything_runs_out_of_time_is_no_rows_fault(hall: Hall) -> None:
    hall.settle(event("a"))
    _slow(hall, "true")
    hall.hurry()
    hall.settle(event("b"), event("c"), event("d"))
    for _ in range(3):
        assert hall.release() == ["events.order_placed"]
    assert (hall.landed(), hall.waiting(), hall.parked()) == (["a"], [1, 2, 3], [])
    _slow(hall, "false")
    assert hall.release() == []
    assert hall.landed() == ["a", "b", "c", "d"]


# --- a paused event type -------------------------------------------------------------------------


def test_a_type_pauses_past_its_share_and_the_others_go_on(hall: Hall) -> None:
    hall.settle(*(_bad(f"bad-{i}") for i in range(30)), event("other-1", "other"))
    assert hall.parked() == list(range(10))  # judged after ten: the rest of the flood waits
    assert hall.waiting() == list(range(10, 30))
    assert hall.held() == {"order_placed": "paused"}
    hall.settle(event("good"), _bad("bad"), event("other-2", "other"))
    assert hall.landed("other") == ["other-1", "other-2"]
    assert hall.waiting() == [*range(10, 30), 31, 32]
    assert hall.totals() == {"landed": 2, "parked": 10, "waiting": 22}
    assert hall.release() == ["order_placed"]  # a person resumes it, not patience
    assert len(hall.waiting()) == 22


def test_resumed_it_lands_what_waited_before_what_comes(hall: Hall) -> None:
    hall.settle(event("first"))
    hall.settle(*(_bad(f"bad-{i}") for i in range(12)))
    hall.settle(event("second"))
    hall.resume("order_placed")
    hall.settle(event("third"))
    assert hall.landed() == ["first"]
    assert hall.release() == []
    hall.settle(event("fourth"))
    assert hall.landed() == ["first", "second", "third", "fourth"]
    assert hall.totals() == {"landed": 4, "parked": 12}


def test_the_bad_ones_that_waited_do_not_pause_it_again(hall: Hall) -> None:
    hall.settle(*(_bad(f"bad-{i}") for i in range(40)))
    hall.resume("order_placed")
    assert hall.release() == []
    assert (len(hall.parked()), hall.held()) == (40, {})


def test_a_few_bad_ones_among_many_pause_nothing(hall: Hall) -> None:
    for at in range(6):
        values = [event(f"{at}-{i}") for i in range(12)] + [_bad(f"bad-{at}-{i}") for i in range(8)]
        hall.settle(*values)
    assert (hall.held(), hall.waiting(), len(hall.parked())) == ({}, [], 48)


def test_a_long_good_past_counts(hall: Hall) -> None:
    hall.settle(*(event(f"good-{i}") for i in range(90)))
    hall.settle(*(_bad(f"bad-{i}") for i in range(40)))
    assert hall.held() == {}
    hall.settle(*(_bad(f"more-{i}") for i in range(40)))
    assert hall.held() == {"order_placed": "paused"}


def test_a_paused_types_rows_wait_in_a_shared_table_and_its_neighbours_land(hall: Hall) -> None:
    hall.bench.execute("CREATE TABLE public.t (id int PRIMARY KEY, n int)")
    route = Routes("onramp", event_routes=(_route("one"), _route("two")))
    bad = [envelope(f"b-{i}", "one", orjson.dumps({"id": i, "n": "x"})) for i in range(12)]
    good = envelope("g", "two", orjson.dumps({"id": 100, "n": 1}))
    batch = arrivals([*bad, good])
    assert hall.bench.settle(batch, pause_policy=LIMIT, routes=route).failures == ()
    assert hall.held() == {"one": "paused"}
    assert hall.bench.rows("SELECT id FROM public.t") == [(100,)]
    assert len(hall.waiting()) == 2


def test_a_paused_type_whose_table_is_blocked_waits_for_both(hall: Hall) -> None:
    hall.settle(*(_bad(f"bad-{i}") for i in range(12)))
    hall.resume("order_placed")
    with hall.locked():
        hall.settle(event("a"))
        assert hall.release() == ["events.order_placed"]  # the type's hold is over: the table's is behind
        hall.settle(event("b"))
    assert hall.release() == []
    assert hall.landed() == ["a", "b"]


def test_a_crash_while_it_pauses_parks_and_pauses_nothing(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [_bad(f"bad-{i}") for i in range(20)]

    def die(name: str) -> None:
        if name == "writer.before_commit":
            raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", die)
        with pytest.raises(RuntimeError, match="killed"):
            hall.settle(*values)
    assert (hall.held(), hall.waiting(), hall.parked(), hall.totals()) == ({}, [], [], {})
    hall.settle(*values)
    hall.settle(*values, fail=False)
    assert hall.totals() == {"parked": 10, "waiting": 30}


def _route(name: str) -> EventRoute:
    return EventRoute(name, "onramp", "public", "t")


def _packet(**data: Any) -> bytes:
    named = [{"type": "postgres", "vanity": "onramp", "schema": "public", "table": "t"}]
    return orjson.dumps({"pipeline_context": {"destinations": named}, "data": data})


def test_places_are_each_named_once(hall: Hall) -> None:
    names = ["one", "two", "three"]
    for name in names:
        hall.settle(*(_bad(f"{name}-{i}", name) for i in range(13)))
    with transaction(hall.bench.database, "driver") as conn:
        assert [p.table for p in waiting_table.tables(conn)] == sorted(names)


def test_events_wait_for_an_exhausted_sequence_whatever_else_is_wrong_with_their_neighbours(
    hall: Hall,
) -> None:
    hall.settle(event("a"))
    hall.bench.execute(
        "CREATE SEQUENCE public.few MAXVALUE 3;"
        "ALTER TABLE events.order_placed ADD COLUMN n int DEFAULT nextval('public.few')"
    )
    bad = envelope("bad", payload=b'{"a":"\\u0000"}')
    hall.settle(event("a"), event("b"), bad, event("c"), event("d"), event("e"))
    assert (hall.waiting(), hall.parked()) == ([1, 2, 3, 4, 5, 6], [])
    assert hall.held() == {"events.order_placed": "blocked"}
    assert hall.release() == ["events.order_placed"]
    hall.bench.execute("ALTER SEQUENCE public.few MAXVALUE 99")
    assert hall.release() == []
    assert (hall.landed(), hall.parked(), hall.waiting()) == (["a", "b", "c", "d", "e"], [3], [])
