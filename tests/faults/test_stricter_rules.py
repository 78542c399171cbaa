"""An upgrade to stricter rules: events that wait are parked in their database, and none is lost."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import orjson
import psycopg2
import pyarrow as pa
import pytest

from services.writer.settle import waiting_table
from services.writer.waiting import waiting_rows
from shared import wire
from shared.parse import parse, slices
from tests.fixtures.inline import KilledError, Places
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import Kept, event, eventually, landed, make_topics, produce, records

POISON = "refused-by-a-later-release"
N = 40


@pytest.fixture
def stricter(monkeypatch: pytest.MonkeyPatch) -> Callable[[], threading.Event]:
    """Let the parser refuse events that it accepted before; the returned event is set when it does."""
    refused = threading.Event()

    def read(given: pa.BinaryArray) -> Any:
        taken = [None if v is not None and POISON.encode() in v else v for v in given.to_pylist()]
        if None in taken:
            refused.set()
        return parse.read(pa.array(taken, pa.binary()))

    def arm() -> threading.Event:
        monkeypatch.setattr(slices, "read", read)
        monkeypatch.setattr(waiting_rows, "read", read)
        return refused

    return arm


def _send(scene: Scene, *ids: str) -> None:
    produce(scene.bootstrap, scene.topic, [event(i, scene.name) for i in ids])


def _ids() -> list[str]:
    return [*(f"e-{i}" for i in range(N // 2)), POISON, *(f"e-{i}" for i in range(N // 2, N))]


def _parked(scene: Scene) -> list[Kept]:
    return [r for r in records(scene.bootstrap, wire.USER_ERRORS) if r.error["topic"] == scene.topic]


def _parked_for(scene: Scene) -> set[str]:
    return {r.error["destination"] for r in _parked(scene)}


def _wait_for(scene: Scene, other: Other) -> None:
    """Events, of which one will be refused, wait on Kafka for `other`."""
    _send(scene, "first")
    eventually(lambda: landed(other.dsn, scene.name) == 1)
    other.close()
    _send(scene, *_ids())
    eventually(lambda: scene.landed() == N + 2)


def test_an_event_that_is_refused_when_it_drains_is_parked_for_its_database(
    inline: Scene, other: Other, stricter: Callable[[], threading.Event]
) -> None:
    make_topics(inline.bootstrap, inline.topic)
    writer: Any = inline.writer_into(other)
    _wait_for(inline, other)
    eventually(lambda: writer.states[other.name] == "out")
    stricter()
    other.open()
    eventually(lambda: landed(other.dsn, inline.name) == N + 1, 60)
    eventually(lambda: writer.states[other.name] == "landing")
    [kept] = _parked(inline)
    assert (kept.value, kept.error["code"]) == (event(POISON, inline.name), "no_envelope")
    assert kept.error["destination"] == f"{other.name}.events.{inline.name}"
    inline.audited(other)


def test_a_drain_that_dies_behind_its_commit_parks_what_it_refused_once(
    inline: Scene, other: Other, stricter: Callable[[], threading.Event], places: Places
) -> None:
    make_topics(inline.bootstrap, inline.topic)
    writer: Any = inline.writer_into(other)
    _wait_for(inline, other)
    eventually(lambda: writer.states[other.name] == "out")
    stricter()
    places.kill_at("writer.after_outbox_publish")
    other.open()
    assert isinstance(writer.ended(), KilledError)
    inline.writer_into(other)
    eventually(lambda: landed(other.dsn, inline.name) == N + 1, 60)
    eventually(lambda: _parked_for(inline) == {f"{other.name}.events.{inline.name}"})
    assert len({r.key for r in _parked(inline)}) == 1, "a repeat has the same key"
    inline.audited(other)


def test_a_packet_that_is_refused_when_it_drains_is_parked_once_for_each_destination(
    inline: Scene, other: Other, stricter: Callable[[], threading.Event]
) -> None:
    make_topics(inline.bootstrap, inline.topic)
    inline.route(other)
    grants = [{"topic": inline.topic, "database": name} for name in (other.name, inline.database)]
    registry = inline.register({"grants": grants})
    writer: Any = inline.writer(registry=registry, databases=orjson.dumps({other.name: other.dsn}).decode())
    _send(inline, "first")
    eventually(lambda: landed(other.dsn, inline.name) == 1)
    other.close()
    named = [
        {"type": "postgres", "vanity": v, "schema": "events", "table": inline.name}
        for v in (other.name, "nobody")
    ]
    packet = orjson.dumps({"pipeline_context": {"destinations": named}, "data": {"_id": POISON}})
    produce(inline.bootstrap, inline.topic, [packet])
    refused, waits = "/pipeline_context/destinations/1", f"{other.name}.events.{inline.name}"
    eventually(lambda: _parked_for(inline) == {refused})
    eventually(lambda: writer.states[other.name] == "out")
    stricter()
    other.open()
    eventually(lambda: _parked_for(inline) == {refused, waits}, 60)
    assert len({r.key for r in _parked(inline)}) == 2
    eventually(lambda: writer.states[other.name] == "landing")
    inline.audited(other)


@contextmanager
def _locked(scene: Scene) -> Iterator[None]:
    with closing(psycopg2.connect(scene.dsn)) as conn, conn.cursor() as cursor:
        cursor.execute(f"LOCK TABLE events.{scene.name} IN ACCESS EXCLUSIVE MODE")
        yield


def _hold(scene: Scene) -> None:
    """Events, of which one will be refused, wait in the database for their table."""
    _send(scene, "first")
    eventually(lambda: scene.landed() == 1)


def test_an_event_that_is_refused_when_it_is_released_is_parked_and_the_others_land(
    inline: Scene, stricter: Callable[[], threading.Event]
) -> None:
    make_topics(inline.bootstrap, inline.topic)
    inline.writer()
    _hold(inline)
    with _locked(inline):
        _send(inline, *_ids())
        eventually(lambda: inline.totals().get("waiting") == N + 1)
        assert stricter().wait(60), "what a release had read before still lands"
    eventually(lambda: inline.landed() == N + 1, 60)
    eventually(lambda: len(_parked(inline)) == 1)
    [kept] = _parked(inline)
    assert (kept.value, kept.error["code"]) == (event(POISON, inline.name), "no_envelope")
    eventually(lambda: inline.totals() == {"landed": N + 1, "parked": 1, "waiting": 0})
    inline.audited()


def test_a_place_at_which_a_release_fails_waits_alone(
    inline: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    beside = f"{inline.name}_z"
    make_topics(inline.bootstrap, inline.topic, wire.topic_of(beside))
    inline.writer(topics=inline.topic.replace(".", r"\.") + ".*")
    _hold(inline)
    produce(inline.bootstrap, wire.topic_of(beside), [event("first", beside)])
    eventually(lambda: landed(inline.dsn, beside) == 1)
    real, failed = waiting_table.take, threading.Event()

    def take(conn: Any, place: Any, *more: Any) -> Any:
        if place.table == inline.name:
            failed.set()
            raise LookupError("what nobody foresaw")
        return real(conn, place, *more)

    with _locked(inline), closing(psycopg2.connect(inline.dsn)) as conn, conn.cursor() as cursor:
        cursor.execute(f"LOCK TABLE events.{beside} IN ACCESS EXCLUSIVE MODE")
        _send(inline, "second")
        produce(inline.bootstrap, wire.topic_of(beside), [event("second", beside)])
        eventually(lambda: inline.totals().get("waiting") == 2)
        monkeypatch.setattr(waiting_table, "take", take)
        assert failed.wait(60), "what a release had taken before still lands"
    eventually(lambda: landed(inline.dsn, beside) == 2, 60)
    assert "cannot be released" in caplog.text
    assert inline.landed() == 1
    monkeypatch.setattr(waiting_table, "take", real)
    eventually(lambda: inline.landed() == 2, 60)
