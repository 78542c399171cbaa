"""An exception that nobody foresaw, in each step: its event is parked or what it stops halts; others land."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg2
import pytest

from services.writer import landing, persist, taking
from services.writer.halving import Odds
from shared import wire
from tests.fixtures.inline import Inline
from tests.fixtures.other import Other
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import Kept, event, eventually, landed, make_topics, produce, records, rows

POISON = "poison"


class BugError(Exception):
    """What nobody foresaw."""


@dataclass
class Two:
    """A scene's topic, and one beside it whose events have nothing to do with it."""

    scene: Scene

    def __post_init__(self) -> None:
        make_topics(self.scene.bootstrap, self.topic, self.beside)

    @property
    def topic(self) -> str:
        return self.scene.topic

    @property
    def beside(self) -> str:
        return f"{self.topic}_beside"

    @property
    def topics(self) -> str:
        return self.topic.replace(".", r"\.") + ".*"

    def writer(self, *others: Other) -> Inline:
        start: Callable[..., Any] = self.scene.writer_into if others else self.scene.writer
        return start(*others, topics=self.topics)

    def send(self, *ids: str) -> None:
        """Put events of these ids on the topic."""
        produce(self.scene.bootstrap, self.topic, [event(i, self.scene.name) for i in ids])

    def landed(self, dsn: str = "") -> set[str]:
        """The ids that landed."""
        dsn = dsn or self.scene.dsn
        if not landed(dsn, self.scene.name):
            return set()
        return {i for (i,) in rows(dsn, f"SELECT _id FROM events.{self.scene.name}")}  # noqa: S608

    def the_other_lands(self) -> None:
        """An event of the topic beside lands."""
        n = landed(self.scene.dsn, f"{self.scene.name}_beside")
        produce(self.scene.bootstrap, self.beside, [event(f"b-{n}", f"{self.scene.name}_beside")])
        eventually(lambda: landed(self.scene.dsn, f"{self.scene.name}_beside") == n + 1, 30)

    def parked(self) -> list[Kept]:
        return [r for r in records(self.scene.bootstrap, wire.USER_ERRORS) if r.error["topic"] == self.topic]


@pytest.fixture
def two(inline: Scene) -> Two:
    return Two(inline)


@pytest.fixture(autouse=True)
def _new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test's process has seen nothing pass yet."""
    monkeypatch.setattr(taking, "_odds", Odds())
    monkeypatch.setattr(persist, "_odds", Odds())


def _has(ids: Any, poison: str = POISON) -> bool:
    return any(i is not None and poison in i for i in ids.to_pylist())


@pytest.fixture
def sort_fails(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let SORT raise at events with such ids."""
    real = landing.rows

    def arm(poison: str) -> None:
        def rows_of(partition: Any, arrivals: Any, events: Any) -> Any:
            if poison and _has(events.column("id"), poison):
                raise BugError
            return real(partition, arrivals, events)

        monkeypatch.setattr(landing, "rows", rows_of)

    return arm


@pytest.fixture
def persist_fails(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let PERSIST raise at events with such ids, in one database if it is named."""
    real, armed = persist.copy_first, {"id": "", "in": ""}

    def copy_first(conn: Any, database: Any, what: Any, rows: Any, **ways: Any) -> Any:
        found = real(conn, database, what, rows, **ways)
        # Asked afterwards: one that waits for a lock while it is armed raises as well.
        if armed["id"] and armed["in"] in ("", database.name) and _has(rows.column("_id"), armed["id"]):
            raise BugError
        return found

    def arm(poison: str, name: str = "") -> None:
        armed.update({"id": poison, "in": name})

    monkeypatch.setattr(persist, "copy_first", copy_first)
    return arm


def _of(n: int, *more: str) -> list[str]:
    ids = [f"e-{i}" for i in range(n)]
    return [*ids[: n // 2], *more, *ids[n // 2 :]]


def _is_parked(two: Two, code: str, value: bytes) -> bool:
    found = [r for r in two.parked() if r.error["code"] == code]
    assert {r.value for r in found} <= {value}
    assert all("BugError" in r.error["detail"] and POISON not in r.error["detail"] for r in found)
    return bool(found)


def test_f46_an_exception_nobody_foresaw_in_sort_parks_its_event_and_the_others_land(
    two: Two, sort_fails: Callable[[str], None]
) -> None:
    sort_fails(POISON)
    two.send(*_of(40, POISON))
    two.writer()
    eventually(lambda: two.landed() == set(_of(40)), 30)
    assert _is_parked(two, "internal_sort", event(POISON, two.scene.name))
    two.the_other_lands()
    two.scene.audited()


def test_f46_an_exception_nobody_foresaw_in_persist_parks_its_event_and_the_others_land(
    two: Two, persist_fails: Callable[..., None]
) -> None:
    persist_fails(POISON)
    two.send(*_of(40, POISON))
    two.writer()
    eventually(lambda: two.landed() == set(_of(40)), 30)
    eventually(lambda: _is_parked(two, "internal_persist", event(POISON, two.scene.name)))
    assert two.scene.totals() == {"landed": 40, "parked": 1}
    two.the_other_lands()
    two.scene.audited()


def test_f46_a_table_at_which_every_event_raises_waits_and_nothing_is_parked(
    two: Two, persist_fails: Callable[..., None]
) -> None:
    persist_fails("e-")
    two.send(*_of(40))
    writer = two.writer()
    two.the_other_lands()
    eventually(lambda: two.scene.totals().get("waiting") == 40)
    assert two.parked() == []
    assert writer.states[two.scene.database] == "landing"
    persist_fails("none such")  # a release that mends it
    eventually(lambda: two.landed() == set(_of(40)), 60)
    assert two.parked() == []


@contextmanager
def _locked(dsn: str, table: str) -> Iterator[None]:
    with closing(psycopg2.connect(dsn)) as conn, conn.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield


def test_f46_an_exception_nobody_foresaw_in_a_release_parks_its_event_and_the_others_land(
    two: Two, persist_fails: Callable[..., None]
) -> None:
    two.writer()
    two.send("first")
    eventually(lambda: two.landed() == {"first"})
    with _locked(two.scene.dsn, f"events.{two.scene.name}"):
        two.send(*_of(40, POISON))
        eventually(lambda: two.scene.totals().get("waiting") == 41)
        persist_fails(POISON)
    eventually(lambda: two.landed() == {"first", *_of(40)}, 60)
    eventually(lambda: _is_parked(two, "internal_persist", event(POISON, two.scene.name)))
    two.the_other_lands()
    eventually(lambda: two.scene.totals() == {"landed": 42, "parked": 1, "waiting": 0})


def test_f46_an_exception_nobody_foresaw_in_a_drain_parks_its_event_and_the_others_land(
    two: Two, other: Other, persist_fails: Callable[..., None]
) -> None:
    writer = two.writer(other)
    _let_wait(two, writer, other)
    persist_fails(POISON, other.name)
    other.open()
    eventually(lambda: two.landed(other.dsn) == {"first", *_of(40)}, 60)
    eventually(lambda: _is_parked(two, "internal_persist", event(POISON, two.scene.name)))
    two.the_other_lands()
    two.scene.audited(other)


def test_f46_what_cannot_be_sorted_when_it_drains_waits_and_harms_no_other_database(
    two: Two, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = two.writer(other)
    _let_wait(two, writer, other)
    epoch = writer.job._epoch
    real, main, draining = landing.rows, threading.main_thread(), threading.Event()

    def rows_of(partition: Any, arrivals: Any, events: Any) -> Any:
        if POISON in events.column("id").to_pylist() and threading.current_thread() is not main:
            draining.set()
            raise BugError
        return real(partition, arrivals, events)

    monkeypatch.setattr(landing, "rows", rows_of)
    other.open()
    assert draining.wait(60)
    two.the_other_lands()
    eventually(lambda: writer.states[other.name] == "out")
    assert two.parked() == []
    assert POISON not in two.landed(other.dsn)
    monkeypatch.setattr(landing, "rows", real)
    eventually(lambda: two.landed(other.dsn) == {"first", POISON, *_of(40)}, 60)
    two.scene.audited(other)
    assert writer.job._epoch == epoch, "the loop was never begun again"


def _let_wait(two: Two, writer: Inline, other: Other) -> None:
    """Events and the poison wait on Kafka for `other`."""
    two.send("first")
    eventually(lambda: two.landed(other.dsn) == {"first"})
    other.close()
    two.send(*_of(40, POISON))
    eventually(lambda: two.landed() == {"first", POISON, *_of(40)})
    eventually(lambda: writer.states[other.name] == "out")
