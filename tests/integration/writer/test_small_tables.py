"""Few rows of many landing tables land by one statement, or table by table if a row is bad."""

import time
from contextlib import closing

import psycopg2
import pytest

from services.writer.model.recent_keys import RecentKeys
from services.writer.persist import small_tables
from services.writer.postgres import answer_cache
from services.writer.postgres.answer_cache import SECONDS
from shared import failpoints
from tests.fixtures.writer import Landed, event
from tests.integration.writer.waiting_bench import Hall

NAMES = [f"kind_{n}" for n in range(5)]
SWALLOWS_AND_TELLS = """
    CREATE TABLE public.seen (id text);
    CREATE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF NEW._id = 'kind_2-x' THEN RETURN NULL; END IF; RETURN NEW; END $$;
    CREATE TRIGGER s BEFORE INSERT ON events.kind_2 FOR EACH ROW EXECUTE FUNCTION public.swallow();
"""


@pytest.fixture(autouse=True)
def _nothing_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_tables, "_refusals", RecentKeys())


def _settle(hall: Hall, *suffixes: str, names: list[str] = NAMES) -> Landed:
    return hall.settle(*(event(f"{name}-{s}", name) for s in suffixes for name in names))


def _landed(hall: Hall) -> dict[str, list[str]]:
    return {name: [i.removeprefix(f"{name}-") for i in hall.landed(name)] for name in NAMES}


def test_small_tables_are_made_and_filled_together(hall: Hall, statements: list[str]) -> None:
    _settle(hall, "a")
    assert len([s for s in statements if "CREATE TABLE" in s]) == 1
    statements.clear()
    found = _settle(hall, "b", "c")
    assert _landed(hall) == {name: ["a", "b", "c"] for name in NAMES}
    assert (hall.totals(), found.delays) == ({"landed": 15}, {f"events.{name}": 2 for name in NAMES})
    assert len([s for s in statements if "COPY" in s]) == 1
    assert len([s for s in statements if "SAVEPOINT" in s]) == 2


def test_a_repeat_among_them_is_a_duplicate_and_all_others_land(hall: Hall) -> None:
    _settle(hall, "a")
    hall.settle(*(event(f"{name}-b", name) for name in NAMES), event("kind_3-a", "kind_3"))
    _settle(hall, "c")
    assert _landed(hall) == {name: ["a", "b", "c"] for name in NAMES}
    assert hall.totals() == {"landed": 15, "duplicate": 1}


def test_a_row_that_a_trigger_swallows_is_parked_and_all_others_land(hall: Hall) -> None:
    _settle(hall, "a")
    hall.bench.execute(SWALLOWS_AND_TELLS)
    assert _settle(hall, "x").parked == 1
    assert _landed(hall) == {name: ["a", "x"] if name != "kind_2" else ["a"] for name in NAMES}
    assert hall.totals() == {"landed": 9, "parked": 1}


def test_a_bad_row_among_them_is_parked_and_all_others_land(hall: Hall) -> None:
    _settle(hall, "a")
    bad = event("kind_1-bad", "kind_1", text="\0")
    assert hall.settle(*(event(f"{name}-b", name) for name in NAMES), bad).parked == 1
    assert _landed(hall) == {name: ["a", "b"] for name in NAMES}


def test_a_table_with_rules_takes_what_it_takes_by_copy(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    _settle(hall, "a")
    hall.bench.execute(
        "CREATE TABLE public.seen (id text); CREATE RULE also AS ON INSERT TO events.kind_1 "
        "DO ALSO INSERT INTO public.seen VALUES (NEW._id)"
    )
    monkeypatch.setattr(answer_cache, "now", lambda: time.monotonic() + SECONDS)
    _settle(hall, "b")
    assert _landed(hall) == {name: ["a", "b"] for name in NAMES}
    assert hall.bench.one("SELECT count(*) FROM public.seen") == 0


def test_events_for_a_locked_small_table_wait_while_the_other_small_tables_take_rows(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    _settle(hall, "a")
    with hall.locked("events.kind_2"):
        _settle(hall, "b")
    monkeypatch.setattr(small_tables, "_refusals", RecentKeys())
    _settle(hall, "c")  # the lock is gone, and b has not landed yet
    assert _landed(hall) == {name: ["a", "b", "c"] if name != "kind_2" else ["a"] for name in NAMES}
    assert hall.release() == []
    assert _landed(hall) == {name: ["a", "b", "c"] for name in NAMES}


def test_a_table_that_somebody_else_is_making_keeps_no_other_from_being_made(hall: Hall) -> None:
    with closing(psycopg2.connect(hall.bench.dsn)) as owner, owner.cursor() as cursor:
        cursor.execute("CREATE TABLE events.kind_3 (_id text PRIMARY KEY)")
        _settle(hall, "a")
        others = [name for name in NAMES if name != "kind_3"]
        assert [hall.landed(name) for name in others] == [[f"{name}-a"] for name in others]
        assert len(hall.waiting()) == 1


def test_a_database_that_refuses_it_is_not_asked_each_time(
    hall: Hall, monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    _settle(hall, "a")
    monkeypatch.setattr(small_tables, "_MAKE_STAGE", "SELECT 'refused'::regclass")
    _settle(hall, "b")
    assert [s for s in statements if "refused" in s]
    statements.clear()
    _settle(hall, "c")
    assert not [s for s in statements if "refused" in s]
    assert _landed(hall) == {name: ["a", "b", "c"] for name in NAMES}


def test_small_table_without_a_key_lands_separately_with_a_warning(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    _settle(hall, "a")
    hall.bench.execute("ALTER TABLE events.kind_1 DROP CONSTRAINT kind_1_pkey")
    monkeypatch.setattr(answer_cache, "now", lambda: time.monotonic() + SECONDS)
    _settle(hall, "b")
    assert hall.bench.rows("SELECT remark, destination, count FROM onramp.warnings") == [
        ("unkeyed", "events.kind_1", 1)
    ]


def test_an_event_at_which_the_writer_fails_is_parked_and_all_others_land(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    _settle(hall, "a")
    monkeypatch.setattr(failpoints, "_ARMED", {"writer.persist": "raise:kind_1-b"})
    assert _settle(hall, "b", "c").parked == 1
    assert _landed(hall) == {n: ["a", "b", "c"] if n != "kind_1" else ["a", "c"] for n in NAMES}


def test_rows_are_as_by_copy(hall: Hall) -> None:
    values = {s: [event(f"{name}-{s}", name, text='"\\ é ☃', number=1.50) for name in NAMES] for s in "ab"}
    hall.settle(*values["a"][:2])
    hall.settle(*values["b"])
    [(by_copy,), (together,)] = hall.bench.rows(
        "SELECT to_jsonb(t) - '_id' - '_offset' FROM events.kind_1 t ORDER BY _id"
    )
    assert together == by_copy
    assert by_copy["payload"] == {"text": '"\\ é ☃', "number": 1.5}
