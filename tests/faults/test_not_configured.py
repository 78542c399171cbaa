"""An event type that names a database or a schema which the writer's settings lack delays only itself."""

from typing import Any

import orjson

from shared import wire
from tests.fixtures.inline import Inline
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import event, eventually, execute, landed, make_topics, produce, rows

SHOWN = 'onramp_writer_registry_not_configured{{place="{}"}}'


def neighbour(scene: Scene) -> str:
    """The name of another event type; the topics of both are there."""
    name = f"{scene.name}_beside"
    make_topics(scene.bootstrap, wire.topic_of(name), scene.topic)
    return name


def start(scene: Scene, types: dict[str, Any], **settings: Any) -> Inline:
    """Start a writer of the scene's topics that follows these event types."""
    registry = scene.register({"event_types": types})
    writer = scene.writer(topics=rf"events\.{scene.name}.*", registry=registry, **settings)
    assert isinstance(writer, Inline)
    return writer


def send(scene: Scene, name: str, *ids: str) -> None:
    produce(scene.bootstrap, wire.topic_of(name), [event(each, name, n=1) for each in ids])


def test_events_for_an_unknown_database_wait_for_it_while_others_land_by_the_new_registry(
    inline: Scene, other: Other
) -> None:
    beside = neighbour(inline)
    writer = start(inline, {})
    send(inline, inline.name, "a-1")
    send(inline, beside, "b-1")
    eventually(lambda: (inline.landed(), landed(inline.dsn, beside)) == (1, 1))
    execute(inline.dsn, "CREATE TABLE public.moved (_id text PRIMARY KEY, n int)")

    types: dict[str, Any] = {
        inline.name: {"destinations": [{}, {"vanity": other.name}]},
        beside: {"destinations": [{"schema": "public", "table": "moved"}]},
    }
    inline.register({"event_types": types})
    place = f"event_types.{inline.name}.destinations.1"
    said = eventually(lambda: writer.readyz()["not_configured"])
    assert said == {place: f"no such database: {other.name}; configured are {inline.database}"}
    eventually(lambda: place in writer.trouble)
    assert writer.shown[SHOWN.format(place)] == 1
    send(inline, inline.name, "a-2", "a-3")
    send(inline, beside, "b-2")
    eventually(lambda: rows(inline.dsn, "SELECT _id FROM public.moved") == [("b-2",)])
    eventually(lambda: inline.landed() == 3)
    eventually(lambda: writer.unknown.get(other.name) == 2)
    writer.stop()

    again = start(inline, types)
    send(inline, inline.name, "a-4")
    send(inline, beside, "b-3")
    eventually(lambda: (inline.landed(), len(rows(inline.dsn, "SELECT FROM public.moved"))) == (4, 2))
    eventually(lambda: again.unknown.get(other.name) == 3)
    assert place in again.readyz()["not_configured"]
    again.stop()

    last = inline.writer_into(other)
    eventually(lambda: landed(other.dsn, inline.name) == 3)
    assert last.readyz()["not_configured"] == {}  # type: ignore[attr-defined]
    inline.audited(other)


def test_events_for_a_schema_that_is_not_open_wait_in_their_database_until_it_is(inline: Scene) -> None:
    beside = neighbour(inline)
    execute(inline.dsn, "CREATE SCHEMA shop; CREATE TABLE shop.orders (_id text PRIMARY KEY, n int)")
    types = {inline.name: {"destinations": [{"schema": "shop", "table": "orders"}]}}
    writer = start(inline, types)
    send(inline, inline.name, "a-1")
    send(inline, beside, "b-1")
    eventually(lambda: landed(inline.dsn, beside) == 1)
    (hold,) = eventually(lambda: writer.readyz()["holds"])
    assert (hold["name"], hold["code"]) == ("shop.orders", "not_configured")
    assert f"event_types.{inline.name}.destinations.0" in writer.readyz()["not_configured"]
    assert rows(inline.dsn, "SELECT code FROM onramp.waiting") == [("not_configured",)]
    writer.stop()

    opened = {inline.database: {"schemas": ["events", "shop"]}}
    start(inline, types, databases=orjson.dumps(opened).decode())
    eventually(lambda: rows(inline.dsn, "SELECT _id FROM shop.orders") == [("a-1",)])
    eventually(lambda: rows(inline.dsn, "SELECT FROM onramp.waiting") == [])
