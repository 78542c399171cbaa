"""Replays of refused destinations: the default database sorts the event again by the current routes."""

from collections.abc import Iterator
from contextlib import closing

import orjson
import psycopg2
import pytest

from services.writer.model.routes import EventRoute, Grant, RoutedDatabase, Routes
from services.writer.postgres.database import Database, configured
from services.writer.replay.rehearse import Rehearsal
from services.writer.replay.replay import Replay
from services.writer.settings import WriterSettings
from tests.fixtures.fix_postgres import Templates, created
from tests.fixtures.writer import PARTITION, TOPIC_ID, database_of, event, execute, rows
from tests.integration.writer.waiting_bench import QUICK, Hall

JOB = "00000000-0000-0000-0000-00000000000a"
FIRST, SECOND = "/pipeline_context/destinations/0", "/pipeline_context/destinations/1"
SCHEMAS = ("events", "public")
#: As it was when they were refused, and as it is once the registry was mended.
BOTH = (RoutedDatabase("onramp", schemas=SCHEMAS), RoutedDatabase("wh", schemas=SCHEMAS))
MENDED = Routes("onramp", BOTH, (Grant("*", "*", "public"),))


def _packet(*tables: tuple[str, str], x: int = 1) -> bytes:
    named = [{"type": "postgres", "vanity": d, "schema": "public", "table": t} for d, t in tables]
    return orjson.dumps({"pipeline_context": {"destinations": named}, "data": {"x": x}})


#: A table takes no 13, and says so by what may be the fault of one row or of the table.
REJECT = """
    CREATE FUNCTION public.reject() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'P0002'; END$$;
    CREATE TRIGGER reject BEFORE INSERT ON public.t FOR EACH ROW WHEN (NEW.x = 13)
        EXECUTE FUNCTION public.reject()
"""


class Both:
    """The default database and another one, `wh`; each has a table without a key."""

    def __init__(self, hall: Hall, wh: str) -> None:
        self.hall = hall
        self.dsns = {"onramp": hall.bench.dsn, "wh": wh}
        self.databases: dict[str, Database] = {
            "onramp": database_of(hall.bench.dsn, **QUICK),
            "wh": configured(WriterSettings(dsn=hall.bench.dsn, databases={"wh": {"dsn": wh}}, **QUICK))[1],
        }
        for dsn in self.dsns.values():
            execute(dsn, "CREATE TABLE public.t (x int)")

    def stage(self, name: str, offset: int, value: bytes, destination: str, **of: str) -> None:
        """Do as the admin service does."""
        where = {"to": None, "table": "replays"} | of
        with closing(psycopg2.connect(self.dsns[name])) as conn, conn, conn.cursor() as cursor:
            cursor.execute(
                'INSERT INTO onramp.replays (topic_id, topic, partition, "offset", destination, attempt, '
                'job, "to", value, timestamp) VALUES (%s, %s, %s, %s, %s, 1, %s, %s, %s, now())',
                (TOPIC_ID, *PARTITION, offset, destination, JOB, where["to"], value),
            )

    def ask(self, name: str, offset: int, value: bytes, destination: str) -> None:
        with closing(psycopg2.connect(self.dsns[name])) as conn, conn, conn.cursor() as cursor:
            cursor.execute(
                'INSERT INTO onramp.rehearsals (job, topic_id, topic, partition, "offset", destination, '
                "value, timestamp) VALUES (%s, %s, %s, %s, %s, %s, %s, now())",
                (JOB, TOPIC_ID, *PARTITION, offset, destination, value),
            )

    def replay(self, name: str, routes: Routes = MENDED) -> dict[str, int]:
        return dict(Replay(self.databases[name]).run(routes))

    def replayed(self, name: str) -> list[tuple[object, ...]]:
        said = (
            'SELECT "offset", destination, outcome, "to", '
            "coalesce(reason ->> 'database', reason ->> 'code') FROM onramp.replayed ORDER BY 1, 2"
        )
        return rows(self.dsns[name], said)

    def staged(self, name: str) -> list[int]:
        return [o for (o,) in rows(self.dsns[name], 'SELECT "offset"::int FROM onramp.replays ORDER BY 1')]

    def landed(self, name: str, table: str = "public.t") -> list[int]:
        return [x for (x,) in rows(self.dsns[name], f"SELECT x FROM {table} ORDER BY ctid")]  # noqa: S608

    def totals(self, name: str) -> list[tuple[str, str, int]]:
        return rows(
            self.dsns[name], "SELECT destination, outcome, events::int FROM onramp.totals ORDER BY 1, 2"
        )


@pytest.fixture
def both(hall: Hall, templates: Templates) -> Iterator[Both]:
    with created(templates.server, templates.writer) as made:
        found = Both(hall, made.dsn)
        yield found


def test_refused_packet_is_sorted_in_the_default_database_and_lands_in_its_own_database(both: Both) -> None:
    value = _packet(("wh", "t"))
    both.stage("onramp", 0, value, FIRST)
    assert both.replay("onramp") == {"sorted": 1}
    assert both.replayed("onramp") == [(0, FIRST, "sorted", None, "wh")]
    assert (both.staged("onramp"), both.landed("onramp"), both.landed("wh")) == ([], [], [])
    for ended in ({"landed": 1}, {}):  # staged on twice, as by one that was killed: nothing but the protocol
        both.stage("wh", 0, value, FIRST)
        assert both.replay("wh") == ended
    assert both.replayed("wh") == [(0, FIRST, "landed", "public.t", None)]
    assert (both.staged("wh"), both.landed("wh")) == ([], [1])
    assert both.totals("wh") == [("public.t", "replayed", 1)]
    assert both.totals("onramp") == []


def test_refused_event_of_the_default_database_lands_there_at_once(both: Both) -> None:
    both.stage("onramp", 0, _packet(("onramp", "t"), x=0), FIRST)
    both.stage("onramp", 1, event("e-1"), "")
    assert both.replay("onramp") == {"landed": 2}
    assert both.replayed("onramp") == [
        (0, FIRST, "landed", "public.t", None),
        (1, "", "landed", "events.order_placed", None),
    ]
    assert both.totals("onramp") == [("events.order_placed", "replayed", 1), ("public.t", "replayed", 1)]
    assert both.hall.landed() == ["e-1"]


def test_replay_of_a_packet_replays_only_its_refused_destination(both: Both) -> None:
    execute(both.dsns["onramp"], "CREATE TABLE public.other (x int)")
    both.stage("onramp", 0, _packet(("onramp", "t"), ("onramp", "other")), SECOND)
    both.stage("onramp", 1, _packet(("onramp", "t"), ("onramp", "t")), SECOND)  # it has landed by the first
    assert both.replay("onramp") == {"landed": 1, "parked": 1}
    assert (both.landed("onramp"), both.landed("onramp", "public.other")) == ([], [1])
    assert both.replayed("onramp")[1] == (1, SECOND, "parked", None, "ambiguous_table")


def test_event_that_is_refused_again_fails_with_its_cause(both: Both) -> None:
    packet = _packet(("gone", "t"), ("wh", "t"))
    both.stage("onramp", 0, packet, FIRST)
    both.stage("onramp", 1, _packet(("wh", "t")), FIRST)
    both.stage("onramp", 2, b"no event", "")
    assert both.replay("onramp", Routes("onramp", BOTH)) == {"parked": 3}
    codes = [row[-1] for row in both.replayed("onramp")]
    assert codes == ["unknown_database", "forbidden_destination", "no_envelope"]
    assert both.landed("wh") == []


def test_event_refused_as_a_whole_that_now_has_several_tables_needs_a_named_table(both: Both) -> None:
    """One attempt is one row: which of them is somebody's choice."""
    routes = Routes(
        "onramp",
        BOTH,
        (Grant("*", "*", "public"),),
        event_routes=(EventRoute("order_placed", "wh", "public", "t"), EventRoute("order_placed", "onramp")),
    )
    value = event("e", x=1)
    both.stage("onramp", 0, value, "")
    both.stage("onramp", 1, value, "", to="public.t")
    assert both.replay("onramp", routes) == {"landed": 1, "parked": 1}
    assert both.replayed("onramp") == [
        (0, "", "parked", None, "ambiguous_table"),
        (1, "", "landed", "public.t", None),
    ]
    assert both.landed("onramp") == [1]


def test_routes_that_changed_since_it_was_sorted_bring_it_nowhere(both: Both) -> None:
    """The attempt was told to be of one database: another one does not hear of it."""
    both.stage("wh", 0, _packet(("onramp", "t")), FIRST)
    assert both.replay("wh") == {"parked": 1}
    assert both.replayed("wh") == [(0, FIRST, "parked", None, "not_routed")]


def test_refused_event_waits_for_a_blocked_table_and_the_other_events_land(both: Both) -> None:
    execute(both.dsns["onramp"], "CREATE TABLE public.other (x int)")
    for offset, table in enumerate(("t", "other", "t")):
        both.stage("onramp", offset, _packet(("onramp", table)), FIRST)
    with both.hall.locked("public.t"):
        assert both.replay("onramp") == {"landed": 1}
        assert both.staged("onramp") == [0, 2]
    execute(
        both.dsns["onramp"],
        "INSERT INTO onramp.holds (kind, name, state) VALUES ('table', 'public.t', 'blocked')",
    )
    assert both.replay("onramp") == {}
    execute(both.dsns["onramp"], "DELETE FROM onramp.holds")
    assert both.replay("onramp") == {"landed": 2}
    assert (both.landed("onramp"), both.landed("onramp", "public.other")) == ([1, 1], [1])


def test_refused_event_that_fails_alone_stays_parked_and_other_events_land_or_are_sorted(
    both: Both,
) -> None:
    """In either database; each is for a table of its own until it is sorted, so no other's fault keeps it."""
    for dsn in both.dsns.values():
        execute(dsn, REJECT)
    of = [("onramp", 13)] * 6 + [("onramp", 1), ("wh", 13), ("wh", 2)]
    values = [_packet((name, "t"), x=x) for name, x in of]
    for offset, value in enumerate(values):
        both.stage("onramp", offset, value, FIRST)
    assert both.replay("onramp") == {"parked": 6, "landed": 1, "sorted": 2}
    assert both.replayed("onramp") == [
        *((offset, FIRST, "parked", None, "data_rejected") for offset in range(6)),
        (6, FIRST, "landed", "public.t", None),
        *((offset, FIRST, "sorted", None, "wh") for offset in (7, 8)),
    ]
    for offset in (7, 8):
        both.stage("wh", offset, values[offset], FIRST)
    assert both.replay("wh") == {"parked": 1, "landed": 1}
    assert both.replayed("wh") == [
        (7, FIRST, "parked", None, "data_rejected"),
        (8, FIRST, "landed", "public.t", None),
    ]
    assert (both.landed("onramp"), both.landed("wh")) == ([1], [2])
    assert (both.staged("onramp"), both.staged("wh")) == ([], [])
    assert both.totals("onramp") == both.totals("wh") == [("public.t", "replayed", 1)]


def test_a_rehearsal_says_where_what_was_refused_belongs_and_there_whether_it_would_land(both: Both) -> None:
    def answers(name: str) -> list[tuple[object, ...]]:
        said = "SELECT outcome, coalesce(reason ->> 'database', reason ->> 'code') FROM onramp.rehearsals"
        return rows(both.dsns[name], f'{said} ORDER BY "offset"')

    both.ask("onramp", 0, _packet(("wh", "t")), FIRST)
    both.ask("onramp", 1, _packet(("gone", "t")), FIRST)
    both.ask("onramp", 2, _packet(("onramp", "t")), FIRST)
    both.ask("wh", 0, _packet(("wh", "t")), FIRST)
    for name in ("onramp", "wh"):
        Rehearsal(both.databases[name], may_land=lambda: True).run(MENDED)
    assert answers("onramp") == [("sorted", "wh"), ("parked", "unknown_database"), ("landed", None)]
    assert answers("wh") == [("landed", None)]
    assert (both.landed("onramp"), both.landed("wh")) == ([], [])
