"""Replays: staged rows land once by the writer's code, with their outcome in the same transaction."""

from contextlib import closing
from hashlib import sha256
from itertools import count
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import orjson
import psycopg2
import pytest

from services.writer.batching.row_rates import RateLimiter
from services.writer.model.routes import Contract, EventRoute, Grant, RoutedDatabase, Routes
from services.writer.park import parked_topic
from services.writer.replay import replay, staged_attempts
from services.writer.replay.replay import Replay
from shared import event_lines
from shared.errors import UserError
from shared.event_lines import EventLines
from shared.kafka_read.offsets import Partition
from tests.fixtures.writer import PARTITION, TOPIC_ID, database_of, envelope, event
from tests.integration.writer.waiting_bench import Hall

JOB = "00000000-0000-0000-0000-00000000000a"
LANDING = "onramp.events.order_placed"

SHOP_IS_OPEN = {"databases": {"onramp": {"schemas": ["events", "public", "shop"]}}}


class Stage:
    """What the admin service does: stages parked events, and reads what became of them."""

    def __init__(self, hall: Hall) -> None:
        self.hall = hall
        self.bench = hall.bench

    def stage(
        self,
        offset: int,
        value: bytes | None,
        *,
        destination: str = LANDING,
        to: str | None = None,
        attempt: int = 1,
        age: str = "0 s",
        partition: Partition = PARTITION,
        topic_id: str = TOPIC_ID,
        digest: bytes | None = None,
    ) -> None:
        with closing(psycopg2.connect(self.bench.dsn)) as conn, conn, conn.cursor() as cursor:
            cursor.execute(
                "INSERT INTO onramp.replays VALUES (%s, %s, %s, %s, %s, %s, %s, %s, NULL, %s, %s, "
                "'2026-01-01T00:00:01Z', '2026-01-01T00:00:02Z', NULL, now() - %s::interval)",
                (topic_id, *partition, offset, destination, attempt, JOB, to, value, digest, age),
            )

    def replay(self, routes: Routes | None = None, **options: Any) -> dict[str, int]:
        run = Replay(database_of(self.bench.dsn, **self.hall.settings), **options)
        return dict(run.run(routes or Routes("onramp")))

    def staged(self) -> list[int]:
        return [o for (o,) in self.bench.rows('SELECT "offset" FROM onramp.replays ORDER BY 1')]

    def replayed(self) -> list[tuple[Any, ...]]:
        """Offset, attempt, outcome and the code of the reason."""
        return self.bench.rows(
            "SELECT \"offset\", attempt, outcome, reason ->> 'code' FROM onramp.replayed ORDER BY 1, 2"
        )


@pytest.fixture
def stage(hall: Hall) -> Stage:
    return Stage(hall)


def _bad(event_id: str) -> bytes:
    return envelope(event_id, "order_placed", b'{"a":"\\u0000"}')


def test_an_event_lands_with_its_own_receipt_and_parked_does_not_shrink(stage: Stage) -> None:
    stage.hall.settle(event("a"), _bad("b"), event("c"))
    digest = sha256(event("b")).digest()
    stage.stage(1, event("b"), digest=digest)
    assert stage.replay() == {"landed": 1}
    assert stage.bench.rows(
        "SELECT _id, _topic, _partition, _offset, _received_at::text FROM events.order_placed WHERE _id = 'b'"
    ) == [("b", *PARTITION, 1, "2026-01-01 00:00:01+00")]
    assert stage.hall.totals() == {"landed": 2, "parked": 1, "replayed": 1}
    assert stage.replayed() == [(1, 1, "landed", None)]
    assert stage.bench.rows("SELECT job::text, sha256 = %s FROM onramp.replayed", digest) == [(JOB, True)]
    assert stage.staged() == []


def test_replay_of_a_landed_event_is_a_duplicate_and_a_failing_event_stays_parked(stage: Stage) -> None:
    stage.hall.settle(event("a"), _bad("b"), _bad("c"), _bad("d"))
    stage.stage(1, event("a"))
    stage.stage(2, _bad("c"))
    stage.stage(3, event("d"))
    assert stage.replay() == {"landed": 1, "duplicate": 1, "parked": 1}
    assert stage.hall.totals() == {"landed": 1, "parked": 3, "replayed": 1, "replayed_duplicate": 1}
    assert stage.replayed() == [
        (1, 1, "duplicate", None),
        (2, 1, "parked", "data_rejected"),
        (3, 1, "landed", None),
    ]
    assert stage.hall.parked() == [1, 2, 3]  # not parked a second time
    assert stage.staged() == []


def test_an_attempt_that_is_known_lands_nothing(stage: Stage) -> None:
    stage.bench.execute("CREATE TABLE public.t (n int)")  # nothing but the protocol is in its way
    routes = Routes("onramp", event_routes=(EventRoute("order_placed", "onramp", "public", "t"),))
    value = envelope("a", "order_placed", b'{"n":1}')
    stage.hall.settle(event("filler"))
    for attempt, ended in ((1, {"landed": 1}), (1, {})):
        stage.stage(0, value, destination="onramp.public.t", attempt=attempt)
        assert stage.replay(routes) == ended
    assert stage.bench.one("SELECT count(*) FROM public.t") == 1
    assert stage.staged() == []


def test_replay_staged_more_than_a_quarter_of_an_hour_ago_is_dropped(stage: Stage) -> None:
    stage.hall.settle(_bad("a"), _bad("b"))
    stage.stage(0, event("a"), age="16 min")
    stage.stage(1, event("b"), age="14 min")
    assert stage.replay() == {"landed": 1}
    assert (stage.hall.landed(), stage.staged(), stage.replayed()) == (["b"], [], [(1, 1, "landed", None)])


def test_they_land_in_the_order_of_their_sources_and_step_by_step(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a step is full of bytes."""
    other = Partition(PARTITION.topic, PARTITION.number + 1)
    monkeypatch.setattr(staged_attempts, "MAX_BYTES", 1000)
    for offset in (7, 3, 5, 4):
        stage.stage(offset, envelope(f"one-{offset}", "order_placed", b'{"x":"%b"}' % (b"x" * 600)))
        stage.stage(offset, event(f"other-{offset}"), partition=other)
    assert stage.replay(at_once=3) == {"landed": 8}
    names = [f"one-{o}" for o in (3, 4, 5, 7)] + [f"other-{o}" for o in (3, 4, 5, 7)]
    assert stage.hall.landed() == names


def test_replays_of_two_generations_of_a_topic_are_counted_separately(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    again = str(uuid4())
    stage.stage(0, event("old"))
    stage.stage(0, event("new"), topic_id=again)
    assert stage.replay() == {"landed": 2}
    counted = stage.bench.rows("SELECT topic_id::text FROM onramp.totals WHERE outcome = 'replayed'")
    assert sorted(counted) == sorted([(TOPIC_ID,), (again,)])
    assert not [r for r in caplog.records if "unexpected error" in r.message]


def test_nothing_lands_in_a_table_that_holds_and_the_others_land(stage: Stage) -> None:
    stage.hall.settle(event("a"), event("o", "other"))
    with stage.hall.locked():
        stage.hall.settle(event("b"))
    assert stage.hall.held() == {"events.order_placed": "blocked"}
    stage.stage(0, event("c"))
    stage.stage(1, event("p", "other"), destination="onramp.events.other")
    assert stage.replay() == {"landed": 1}
    assert (stage.staged(), stage.hall.landed("other")) == ([0], ["o", "p"])
    assert stage.hall.release() == []
    assert stage.replay() == {"landed": 1}
    assert stage.hall.landed() == ["a", "b", "c"]


def test_a_table_that_is_locked_is_passed_over_and_gets_no_hold(stage: Stage) -> None:
    stage.hall.settle(event("a"), event("o", "other"))
    stage.stage(0, event("b"))
    stage.stage(1, event("p", "other"), destination="onramp.events.other")
    with stage.hall.locked():
        assert stage.replay() == {"landed": 1}
    assert (stage.staged(), stage.hall.held(), stage.hall.totals()) == (
        [0],
        {},
        {"landed": 2, "replayed": 1},
    )
    assert stage.replay() == {"landed": 1}


def test_a_paused_type_stops_no_replay_and_no_replay_pauses_a_type(stage: Stage) -> None:
    stage.hall.settle(*(_bad(f"e-{n}") for n in range(20)))
    assert stage.hall.held() == {"order_placed": "paused"}
    stage.stage(0, event("e-0"))
    assert stage.replay() == {"landed": 1}
    stage.hall.settle(event("o", "other"))
    for n in range(50):
        stage.stage(n + 1, envelope(f"o-{n}", "other", b'{"a":"\\u0000"}'), destination="onramp.events.other")
    assert stage.replay() == {"parked": 50}
    assert stage.hall.held() == {"order_placed": "paused"}


def test_a_table_that_no_route_names_needs_another(stage: Stage) -> None:
    """Of the same database, and one that the event's own routes or its topic's grants allow."""
    stage.bench.execute("CREATE SCHEMA shop; CREATE TABLE shop.orders (x int); CREATE TABLE public.p (x int)")
    stage.hall.settings |= SHOP_IS_OPEN
    places = (RoutedDatabase("onramp", schemas=("events", "public", "shop")),)
    routes = Routes("onramp", places, event_routes=(EventRoute("order_placed", "onramp", "shop", "orders"),))
    value = envelope("a", "order_placed", b'{"x":1}')
    stage.stage(0, value)
    stage.stage(1, value, to="shop.orders")
    stage.stage(2, value, to="public.p")
    stage.stage(3, value, to="onramp.ledger")
    stage.stage(4, envelope("a", "unrouted", b'{"x":1}'), to="shop.orders")
    assert stage.replay(routes) == {"landed": 2, "parked": 3}
    assert stage.replayed() == [
        (0, 1, "parked", "not_routed"),
        (1, 1, "landed", None),
        (2, 1, "landed", None),
        (3, 1, "parked", "forbidden_destination"),
        (4, 1, "parked", "forbidden_destination"),
    ]
    counted = stage.bench.rows(
        "SELECT destination, events::int FROM onramp.totals WHERE outcome = 'replayed'"
    )
    assert counted == [("events.order_placed", 2)]  # where it was parked


def test_no_grant_opens_a_schema_that_is_closed(stage: Stage) -> None:
    for offset, to in enumerate(("onramp.holds", "pg_catalog.pg_class", "secret.t")):
        stage.stage(offset, event("a"), to=to)
    assert stage.replay(Routes("onramp", grants=(Grant("*"),))) == {"parked": 3}
    assert {code for *_, code in stage.replayed()} == {"forbidden_destination"}


def test_grants_and_contracts_are_those_of_today(stage: Stage) -> None:
    stage.bench.execute("CREATE SCHEMA shop; CREATE TABLE shop.orders (x int)")
    stage.hall.settings |= SHOP_IS_OPEN
    named = [{"type": "postgres", "vanity": "onramp", "schema": "shop", "table": "orders"}]
    packet = orjson.dumps({"pipeline_context": {"destinations": named}, "data": {"x": 1, "more": 2}})
    places = (RoutedDatabase("onramp", schemas=("shop",)),)
    granted = Routes("onramp", places, (Grant("*", "onramp", "shop"),))
    lenient = Routes("onramp", places, granted.grants, contracts=(Contract("discard"),))
    for attempt, routes in enumerate((Routes("onramp", places), granted, lenient)):
        stage.stage(0, packet, destination="onramp.shop.orders", attempt=attempt)
        stage.replay(routes)
    assert stage.replayed() == [
        (0, 0, "parked", "forbidden_destination"),
        (0, 1, "parked", "unknown_field"),
        (0, 2, "landed", None),
    ]


def test_staged_value_that_is_not_an_event_stays_parked(stage: Stage) -> None:
    stage.stage(0, b"no JSON")
    stage.stage(1, None)
    stage.stage(2, b"no JSON", to="events.order_placed")
    assert stage.replay() == {"parked": 3}
    assert [code for *_, code in stage.replayed()] == ["no_envelope"] * 3


def test_a_name_with_nul_parks_its_event_and_no_database_is_down(stage: Stage) -> None:
    nul = event("a").replace(b'"payload"', b'"un\\u0000known":1,"payload"')
    stage.stage(0, nul)
    stage.stage(1, event("b"))
    assert stage.replay() == {"landed": 1, "parked": 1}
    assert stage.replayed() == [(0, 1, "parked", "no_envelope"), (1, 1, "landed", None)]


def test_a_verdict_that_cannot_be_stored_parks_its_event_alone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = parked_topic.reason

    def with_nul(error: UserError, *where: Any, **more: Any) -> bytes:
        return made(error, *where, **more).replace(b"bad_envelope: ", b"\\u0000")

    monkeypatch.setattr(parked_topic, "reason", with_nul)
    stage.stage(0, event("a").replace(b'"payload"', b'"unknown":1,"payload"'))
    stage.stage(1, event("b"))
    stage.stage(2, event("c"))
    assert stage.replay() == {"landed": 2, "parked": 1}
    assert [row[2:] for row in stage.replayed()] == [
        ("parked", "internal_persist"),
        ("landed", None),
        ("landed", None),
    ]


def test_an_event_that_fails_alone_stays_parked_where_others_land(stage: Stage) -> None:
    stage.hall.settle(event("first"))
    stage.bench.execute(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'P0002'; END$$;"
        "CREATE TRIGGER no BEFORE INSERT ON events.order_placed FOR EACH ROW "
        "WHEN (NEW._id LIKE 'bad%') EXECUTE FUNCTION no()"
    )
    stage.stage(1, event("bad-1"))
    stage.stage(2, event("good"))
    assert stage.replay() == {"landed": 1, "parked": 1}
    for offset in range(3, 10):
        stage.stage(offset, event(f"bad-{offset}"))
    assert stage.replay() == {}  # it takes none of them: they wait
    assert len(stage.staged()) == 7


@pytest.mark.parametrize(("took", "pause"), [(0.25, 0.25), (7.0, 1.0)])
def test_beside_live_events_pages_are_small_and_for_as_long_as_one_took_none_is_taken(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, took: float, pause: float
) -> None:
    slept: list[float] = []
    clock = SimpleNamespace(sleep=slept.append, monotonic=count(0.0, took).__next__)
    monkeypatch.setattr(replay, "time", clock)
    monkeypatch.setattr(replay, "_AT_ONCE_DURING_LIVE", 2)
    stage.hall.settle(*map(_bad, "abcdefghij"))
    pages = 'SELECT count(*) FROM onramp.replayed GROUP BY xmin ORDER BY min("offset")'
    for offset in range(5):
        stage.stage(offset, event(f"a-{offset}"))
    assert stage.replay(is_live=lambda: True) == {"landed": 5}
    assert [n for (n,) in stage.bench.rows(pages)] == [2, 2, 1]
    assert [seconds for seconds in slept if seconds] == [pause] * 3
    for offset in range(5, 10):
        stage.stage(offset, event(f"a-{offset}"))
    assert stage.replay() == {"landed": 5}
    assert [n for (n,) in stage.bench.rows(pages)] == [2, 2, 1, 5]
    assert [seconds for seconds in slept if seconds] == [pause] * 3


def test_the_databases_rate_counts(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(replay.time, "sleep", slept.append)
    for offset in range(30):
        stage.stage(offset, event(f"e-{offset}"))
    limiter = RateLimiter({"onramp": 10.0}, clock=lambda: 0.0)
    assert stage.replay(rate_limiter=limiter) == {"landed": 30}
    assert [round(s, 1) for s in slept[:4]] == [0.0, 0.1, 1.1, 2.1]  # ten rows before each


def test_nothing_lands_once_it_may_not(stage: Stage) -> None:
    for offset in range(6):
        stage.stage(offset, event(f"e-{offset}"))
    may = iter([True, True, False])
    assert stage.replay(may_land=lambda: next(may), at_once=2) == {"landed": 4}
    assert stage.staged() == [4, 5]


def test_staged_replay_locked_by_another_session_is_skipped(stage: Stage) -> None:
    """A cancel, or a writer that is a zombie."""
    stage.stage(0, event("a"))
    stage.stage(1, event("b"))
    with closing(psycopg2.connect(stage.bench.dsn)) as other, other.cursor() as cursor:
        cursor.execute('DELETE FROM onramp.replays WHERE "offset" = 0')
        assert stage.replay() == {"landed": 1}
        other.commit()
    assert (stage.replay(), stage.hall.landed()) == ({}, ["b"])


def test_every_attempt_has_a_line_once_it_is_committed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    lines = EventLines("writer", "x", 1000, write=written.extend)
    monkeypatch.setattr(event_lines, "of_process", lambda *_: lines)
    stage.hall.settle(event("a"), *map(_bad, "bcde"))
    stage.stage(1, event("a"))
    stage.stage(2, _bad("c"))
    stage.stage(3, event("d"))
    stage.stage(4, envelope("e", "elsewhere", b"{}"))
    stage.replay(event_lines=1000)
    topic, number = PARTITION
    said = {line["receipt"]: line for line in map(orjson.loads, written)}
    assert {line["step"] for line in said.values()} == {"replay"}
    assert [
        (line["event_id"], line["outcome"], line.get("code"))
        for line in (said[f"{topic}/{number}/{offset}"] for offset in (1, 2, 3, 4))
    ] == [
        ("a", "duplicate", None),
        ("c", "parked", "data_rejected"),
        ("d", "landed", None),
        ("e", "parked", "not_routed"),
    ]


def test_an_attempt_at_what_another_attempt_has_landed_is_dropped(stage: Stage) -> None:
    """Its job was started by a control database that was restored from an earlier dump the other one."""
    stage.bench.execute("CREATE TABLE public.unkeyed (x int)")
    value, to = envelope("a", "order_placed", b'{"x":1}'), "public.unkeyed"
    stage.stage(0, value, to=to)
    assert stage.replay() == {"landed": 1}
    stage.stage(0, value, to=to, attempt=2)
    stage.stage(1, value, to=to, attempt=2)
    assert stage.replay() == {"landed": 1}
    assert (stage.staged(), stage.bench.one("SELECT count(*)::int FROM public.unkeyed")) == ([], 2)
