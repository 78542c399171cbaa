"""Event types that are tracked for pauses: bounded in number, without locks, none for unknown tables."""

from contextlib import closing
from typing import Any

import orjson
import psycopg2
import pytest

from services.writer.model.targets import Target
from services.writer.postgres.pool import transaction
from services.writer.settle import holds
from tests.fixtures.writer import envelope, event
from tests.integration.writer.waiting_bench import Hall

_WATCHED = "SELECT name FROM onramp.holds WHERE state = 'watched' ORDER BY name"


def _bad(event_id: str, name: str) -> bytes:
    return envelope(event_id, name, b'{"a":"\\u0000"}')


def _packet(table: str, **data: Any) -> bytes:
    named = [{"type": "postgres", "vanity": "onramp", "schema": "public", "table": table}]
    return orjson.dumps({"pipeline_context": {"destinations": named}, "data": data})


def _watched(hall: Hall) -> list[str]:
    return [name for (name,) in hall.bench.rows(_WATCHED)]


def _watch(hall: Hall, n: int) -> None:
    with transaction(hall.bench.database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(
            "INSERT INTO onramp.holds (kind, name, state, events, parked, since) SELECT 'type', "
            "'other_' || i, 'watched', 10, 5, now() - interval '1 hour' + i * interval '1 s' "
            "FROM generate_series(1, %s) i",
            (n,),
        )


def test_nonexistent_tables_named_by_packets_are_not_watched(hall: Hall) -> None:
    hall.settle(*(_packet(f"made_up_{i}", id=1) for i in range(60)))
    assert (hall.bench.rows("SELECT name FROM onramp.holds"), len(hall.parked())) == ([], 60)


def test_a_flood_to_a_table_that_is_not_there_is_still_one_mistake(hall: Hall) -> None:
    hall.settle(*(_packet("not_there", id=i) for i in range(30)))
    assert (hall.held(), len(hall.parked())) == ({"public.not_there": "paused"}, 10)


def test_a_table_that_was_there_is_watched_when_it_is_dropped(hall: Hall) -> None:
    hall.bench.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
    hall.settle(*(_packet("t", id=i) for i in range(4)))
    hall.bench.execute("DROP TABLE public.t")
    for i in range(3):
        hall.settle(*(_packet("t", id=10 * i + j) for j in range(4)))
    assert hall.held() == {"public.t": "paused"}


def test_a_transaction_locks_no_watched_type_and_reads_only_its_own(hall: Hall) -> None:
    _watch(hall, 500)
    hall.settle(event("a"))
    with hall.locked():
        hall.settle(event("b"))
    with transaction(hall.bench.database, "land") as conn:
        held = holds.read_shared(
            conn, {Target("onramp", "events", t): [] for t in ("other_7", "order_placed")}
        )
        assert (list(held.types), list(held.tables)) == (["other_7"], ["events.order_placed"])
        with closing(psycopg2.connect(hall.bench.dsn)) as another, another.cursor() as cursor:
            cursor.execute("SELECT kind FROM onramp.holds FOR UPDATE SKIP LOCKED")
            assert cursor.fetchall() == [("type",)] * 500


def test_only_so_many_are_watched_those_that_changed_last(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holds, "MAX_WATCHED", 20)
    _watch(hall, 50)
    hall.bench.execute("INSERT INTO onramp.holds (kind, name, state) VALUES ('type', 'held', 'paused')")
    hall.settle(_bad("one", "new"))
    assert len(_watched(hall)) == 20
    assert {"new", "other_50", "other_32"} <= set(_watched(hall))
    hall.settle(*(_bad(f"b-{i}", f"type_{i}") for i in range(30)))
    assert len(_watched(hall)) == 20
    assert hall.held() == {"held": "paused"}


def test_a_type_that_is_well_again_is_watched_no_more(hall: Hall) -> None:
    hall.settle(*(event(f"g-{i}") for i in range(20)), _bad("bad", "order_placed"))
    assert _watched(hall) == ["order_placed"]
    hall.settle(*(event(f"h-{i}") for i in range(100)))
    assert _watched(hall) == []


def test_a_type_of_two_tables_is_judged_by_both(hall: Hall) -> None:
    """Well in the one, ill in the other: it is watched."""
    with transaction(hall.bench.database, "land") as conn:
        held = holds.Holds()
        held.put(holds.Hold(holds.KIND_TYPE, "both", holds.STATE_WATCHED))
        held.unwatch("both")
        held.put(holds.Hold(holds.KIND_TYPE, "both", holds.STATE_WATCHED))
        held.flush(conn)
    assert _watched(hall) == ["both"]
