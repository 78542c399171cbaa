"""A registry whose leader is down, and a registry that is lost."""

import threading

import pytest

from tests.fixtures.inline import Inline
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import delete_topic, event, eventually, make_topics, produce


def test_events_land_under_the_last_snapshot_while_a_look_at_the_registry_waits(
    inline: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topics(inline.bootstrap, inline.topic)
    writer: Inline = inline.writer()
    asked, goes_on = threading.Event(), threading.Event()

    def refresh() -> bool:
        asked.set()
        assert goes_on.wait(600)
        return False

    monkeypatch.setattr(writer.job._registry, "refresh", refresh)
    try:
        assert asked.wait(60)
        for n in range(3):
            produce(inline.bootstrap, inline.topic, [event(f"e-{n}", inline.name)])
            eventually(lambda n=n: inline.landed() == n + 1)
    finally:
        goes_on.set()


def test_nothing_lands_after_the_loss_of_the_registry_until_the_file_is_applied_again(inline: Scene) -> None:
    registry = inline.register({"event_types": {inline.name: {"owner": "shop"}}})
    inline.produce(event("e-0", inline.name))
    writer: Inline = inline.writer(registry=registry)
    eventually(lambda: inline.landed() == 1)
    writer.stop()
    delete_topic(inline.bootstrap, registry.topic)
    successor: Inline = inline.writer(registry=registry, wait=False)
    inline.produce(event("e-1", inline.name))
    eventually(lambda: "is empty, and had changes before" in successor.trouble)
    assert inline.landed() == 1
    registry.put({"event_types": {inline.name: {"owner": "shop"}}})
    eventually(lambda: inline.landed() == 2)
