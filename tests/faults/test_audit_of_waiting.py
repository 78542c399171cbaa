"""Audit of waiting events: each is counted once for each destination, like landed events.

The totals have one entry for each event that waits for a database, however many of its tables
the event goes to.
"""

from typing import Any

import orjson
import pytest

from stack.registry import OwnRegistry
from tests.fixtures.inline import Inline
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import event, eventually, execute, rows

TABLES = ("one", "two")


@pytest.fixture
def with_tables(other: Other) -> Other:
    """A second database with two tables of its own."""
    for table in TABLES:
        execute(other.dsn, f"CREATE TABLE public.{table} (n int PRIMARY KEY)")
    return other


def _registry(scene: Scene, other: Other) -> OwnRegistry:
    """The scene's events go to their landing table, and in `other` to three; its packets may too."""
    there: dict[str, Any] = {"type": "postgres", "vanity": other.name}
    typed = [there | {"schema": "public", "table": table} for table in TABLES]
    document = {
        "event_types": {scene.name: {"destinations": [{"type": "postgres"}, there, *typed]}},
        "grants": [{"topic": scene.topic}],
    }
    return scene.register(document)


def _writer(scene: Scene, other: Other) -> Inline:
    databases = orjson.dumps({other.name: other.dsn}).decode()
    writer = scene.writer(registry=_registry(scene, other), databases=databases)
    assert isinstance(writer, Inline)
    eventually(lambda: set(writer.states.values()) == {"landing"})
    return writer


def _packet(other: Other, n: int, *tables: str) -> bytes:
    named = [
        {"type": "postgres", "vanity": other.name, "schema": "public", "table": table} for table in tables
    ]
    return orjson.dumps({"pipeline_context": {"destinations": named}, "data": {"n": n}})


def _in(other: Other, table: str) -> list[int]:
    return [n for (n,) in rows(other.dsn, f"SELECT n FROM public.{table} ORDER BY n")]  # noqa: S608


def _settled(scene: Scene, events: int) -> None:
    eventually(lambda: sum(scene.group().values()) == events)


def test_an_event_for_several_tables_of_a_database_that_is_out_waits_for_each(
    inline: Scene, with_tables: Other
) -> None:
    other = with_tables
    writer = _writer(inline, other)
    inline.produce(event("a", inline.name, n=1))
    _settled(inline, 1)
    other.close()
    inline.produce(
        event("b", inline.name, n=2),
        _packet(other, 3, *TABLES),
        _packet(other, 4, *TABLES, "one"),  # a table that is named twice is one destination
        _packet(other, 5, "one", "one\0"),
    )
    _settled(inline, 5)
    writer.stop()
    other.open()
    assert sum(line.waiting for line in inline.audited(other).lines) == 3 + 2 + 2 + 1
    _writer(inline, other)
    eventually(lambda: [_in(other, table) for table in TABLES] == [[1, 2, 3, 4, 5], [1, 2, 3, 4]])
    assert sum(line.waiting for line in inline.audited(other).lines) == 0
