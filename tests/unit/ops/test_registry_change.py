"""Changes of the registry that a service could not use are refused before they are in force."""

import pytest

from services.ops.registry.change import State, Wish, change_to
from shared.contracts.compile_cost import require_quick_start
from shared.registry import Snapshot
from shared.registry.editor import Editor
from shared.registry.log import MemoryLog

SOURCES = {"shop": {"dsn_env": "ONRAMP_SOURCE_SHOP", "schemas": ["app"], "publish": "shop"}}


@pytest.mark.parametrize(
    ("topic", "state"),
    [
        ("cdc.shop-app-orders", State.REFUSED),
        ("cdc.shop-transaction", State.REFUSED),
        ("cdc.orders", State.APPLIED),
        ("shop.orders", State.APPLIED),
    ],
)
@pytest.mark.parametrize("first", ["sources", "event_types"])
def test_events_do_not_go_to_the_topic_of_a_source(topic: str, state: State, first: str) -> None:
    known = {"sources": SOURCES, "event_types": {"order": {"topic": topic}}}
    editor = Editor(MemoryLog())
    assert (
        change_to(editor, Snapshot.model_validate({first: known[first]}), Wish("ada")).state == State.APPLIED
    )
    result = change_to(editor, Snapshot.model_validate(known), Wish("ada"))
    assert result.state == state, result
    assert (f"{topic} is for the changes of the source shop" in result.reason) == (state == State.REFUSED)


def test_patterns_of_many_types_that_take_long_to_compile_together_are_refused() -> None:
    """A process would need minutes and gigabytes at its start."""
    slow = {"properties": {f"f{n}": {"pattern": rf"^\p{{L}}{{1,{90 + n}}}$"} for n in range(18)}}
    types = {f"order_{n}": {"schema": slow} for n in range(8)}
    result = change_to(Editor(MemoryLog()), Snapshot.model_validate({"event_types": types}), Wish("ada"))
    assert result.state == State.REFUSED
    assert "all event types together" in result.reason
    require_quick_start([slow] * 5, [])
    require_quick_start([slow] * 8, [slow] * 9)  # an existing registry can shrink


@pytest.mark.parametrize(
    "place",
    [{"schema": "a", "table": "t\0"}, {"schema": "\0", "table": "t"}, {"schema": "a", "table": "t" * 64}],
)
def test_a_destination_that_postgres_cannot_name_is_refused(place: dict[str, str]) -> None:
    """The writer would look for it without end: psycopg2 refuses NUL, and Postgres cuts long names."""
    wanted = Snapshot.model_validate({"event_types": {"order": {"destinations": [place]}}})
    result = change_to(Editor(MemoryLog()), wanted, Wish("ada"))
    assert (result.state, "at most 63 bytes" in result.reason) == (State.REFUSED, True)
