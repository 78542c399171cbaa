"""Rehearsals use the code of replays, report its outcomes, and leave no trace."""

import json
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from services.writer.model.routes import EventRoute, Routes
from services.writer.park import parked_topic
from services.writer.replay.rehearse import Rehearsal
from services.writer.replay.replay import Replay
from services.writer.replay.scheduler import land_and_answer
from shared.errors import UserError
from tests.fixtures.writer import PARTITION, TOPIC_ID, database_of, envelope, event
from tests.integration.writer.test_replays import Stage
from tests.integration.writer.waiting_bench import Hall

JOB = "00000000-0000-0000-0000-00000000000b"
OTHER = "00000000-0000-0000-0000-00000000000c"


class Asking:
    """What the admin service does: asks, and reads the answers."""

    def __init__(self, hall: Hall) -> None:
        self.hall = hall
        self.bench = hall.bench

    def ask(
        self,
        offset: int,
        value: bytes,
        *,
        destination: str = "onramp.events.order_placed",
        triggers: bool = False,
        job: str = JOB,
        age: str = "0 s",
        shows_row: bool = False,
    ) -> None:
        with closing(psycopg2.connect(self.bench.dsn)) as conn, conn, conn.cursor() as cursor:
            cursor.execute(
                'INSERT INTO onramp.rehearsals (job, topic_id, topic, partition, "offset", destination, '
                "value, timestamp, with_triggers, staged_at, shows_row) "
                "VALUES (%s, %s, %s, %s, %s, %s, %s, now(), %s, now() - %s::interval, %s)",
                (job, TOPIC_ID, *PARTITION, offset, destination, value, triggers, age, shows_row),
            )

    def run(self, routes: Routes | None = None) -> int:
        database = database_of(self.bench.dsn, **self.hall.settings)
        return Rehearsal(database, may_land=lambda: True).run(routes or Routes("onramp"))

    def answers(self, job: str = JOB) -> list[tuple[Any, ...]]:
        return self.bench.rows(
            "SELECT \"offset\", outcome, reason ->> 'code' FROM onramp.rehearsals WHERE job = %s ORDER BY 1",
            job,
        )

    def shown(self) -> dict[int, Any]:
        """The rows that were answered, by offset."""
        found = self.bench.rows('SELECT "offset", row_text FROM onramp.rehearsals WHERE row_text IS NOT NULL')
        return {offset: json.loads(text) for offset, text in found}


@pytest.fixture
def asking(hall: Hall) -> Asking:
    return Asking(hall)


def _bad(event_id: str) -> bytes:
    return envelope(event_id, "order_placed", b'{"a":"\\u0000"}')


def test_rehearsal_reports_each_outcome_and_lands_nothing(asking: Asking) -> None:
    asking.hall.settle(event("a"))
    asking.ask(1, event("b"))
    asking.ask(2, event("a"))
    asking.ask(3, _bad("c"))
    asking.ask(4, b"no JSON")
    asking.ask(1, event("b"), job=OTHER)
    before = (asking.hall.landed(), asking.hall.totals())
    assert asking.run() == 5
    assert asking.answers() == [
        (1, "landed", None),
        (2, "duplicate", None),
        (3, "parked", "data_rejected"),
        (4, "parked", "no_envelope"),
    ]
    assert asking.answers(OTHER) == [(1, "landed", None)]
    assert (asking.hall.landed(), asking.hall.totals()) == before
    assert asking.bench.rows("TABLE onramp.replayed") == []


def test_rows_are_as_postgres_returns_them_and_nothing_of_them_remains(asking: Asking) -> None:
    asking.bench.execute(
        "CREATE TABLE public.orders (id serial, amount numeric(10,2), total numeric GENERATED ALWAYS AS "
        "(amount * 2) STORED, currency text DEFAULT 'EUR', at date, UNIQUE (amount));"
        "INSERT INTO public.orders (amount) VALUES (7)"
    )
    routes = Routes("onramp", event_routes=(EventRoute("order_placed", "onramp", "public", "orders"),))
    payloads = (b'{"amount":12.5,"at":"2026-01-31"}', b'{"amount":1}', b'{"amount":"n/a"}', b'{"amount":7}')
    for offset, payload in enumerate(payloads):
        value = envelope(f"e-{offset}", "order_placed", payload)
        asking.ask(offset, value, destination="onramp.public.orders", shows_row=offset != 1)
    assert asking.run(routes) == 4
    row = {"id": 1, "amount": 12.5, "total": 25.0, "currency": "EUR", "at": "2026-01-31"}
    assert asking.shown() == {0: row}, "neither that of an event that fails, nor one not asked for"
    assert asking.bench.rows("SELECT id, amount FROM public.orders") == [(1, 7)]


def test_a_row_of_a_landing_table_has_its_own_receipt(asking: Asking) -> None:
    asking.hall.settle(event("a"))
    asking.ask(8, event("b"), shows_row=True)
    asking.ask(9, event("c"), shows_row=True)
    assert asking.run() == 2
    assert {offset: (row["_offset"], row["_id"]) for offset, row in asking.shown().items()} == {
        8: (8, "b"),
        9: (9, "c"),
    }


def test_a_table_without_a_copy_shows_no_rows_and_is_rehearsed(asking: Asking) -> None:
    asking.bench.execute("CREATE TABLE public.base (n int); CREATE VIEW public.seen AS TABLE public.base")
    routes = Routes("onramp", event_routes=(EventRoute("order_placed", "onramp", "public", "seen"),))
    value = envelope("a", "order_placed", b'{"n":1}')
    asking.ask(0, value, destination="onramp.public.seen", shows_row=True)
    assert asking.run(routes) == 1
    assert len(asking.answers()) == 1
    assert asking.shown() == {}


def test_a_table_with_triggers_asks_for_a_flag(asking: Asking) -> None:
    asking.bench.execute(
        "CREATE TABLE public.t (n int);"
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$;"
        "CREATE TRIGGER f BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION f()"
    )
    routes = Routes("onramp", event_routes=(EventRoute("order_placed", "onramp", "public", "t"),))
    value = envelope("a", "order_placed", b'{"n":1}')
    asking.ask(0, value, destination="onramp.public.t")
    asking.ask(1, value, destination="onramp.public.t", triggers=True)
    assert asking.run(routes) == 2
    assert [outcome for _, outcome, _ in asking.answers()] == ["triggers", "landed"]


def test_event_that_cannot_be_rehearsed_is_unknown_and_the_other_events_get_outcomes(asking: Asking) -> None:
    """A table that is locked, and one that a replay would make."""
    asking.hall.settle(event("a"), event("o", "other"))
    asking.ask(0, event("b"))
    asking.ask(1, event("p", "other"), destination="onramp.events.other")
    asking.ask(2, event("q", "unheard"), destination="onramp.events.unheard")
    with asking.hall.locked():
        assert asking.run() == 3
    assert [outcome for _, outcome, _ in asking.answers()] == ["unknown", "landed", "unknown"]
    assert asking.bench.one("SELECT to_regclass('events.unheard')") is None


def test_a_verdict_that_cannot_be_stored_is_unknown(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    made = parked_topic.reason

    def with_nul(error: UserError, *where: Any, **more: Any) -> bytes:
        return made(error, *where, **more).replace(b"bad_envelope: ", b"\\u0000")

    monkeypatch.setattr(parked_topic, "reason", with_nul)
    asking.ask(0, event("a").replace(b'"payload"', b'"unknown":1,"payload"'))
    assert asking.run() == 1
    assert asking.answers() == [(0, "unknown", None)]


def test_unfetched_rehearsal_is_dropped_after_an_hour(asking: Asking) -> None:
    asking.ask(0, event("a"), age="61 min")
    assert (asking.run(), asking.answers()) == (0, [])


def test_a_rehearsal_is_answered_between_the_pages_of_a_long_replay(asking: Asking) -> None:
    for offset in range(3):
        Stage(asking.hall).stage(offset, event(f"r-{offset}"))
    seen = []

    def may_land() -> bool:
        seen.append(asking.answers(OTHER))
        if len(seen) == 1:
            asking.ask(7, event("b"), job=OTHER)
        return True

    database = database_of(asking.bench.dsn, **asking.hall.settings)
    replay = Replay(database, may_land=may_land, at_once=1)
    done = land_and_answer(replay, Rehearsal(database, may_land=lambda: True), Routes("onramp"))
    assert seen[:2] == [[], [(7, "landed", None)]]
    assert (dict(done.ended), done.answered) == ({"landed": 3}, 1)
