"""Changes of the registry that a service could not use are refused before they are in force."""

import pytest

from services.ops.registry.change import State, Wish, change_to
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
