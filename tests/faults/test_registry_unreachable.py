"""A registry whose leader is out is the old one for as long as that lasts: no event waits for it."""

import threading

import pytest

from tests.fixtures.inline import Inline
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import event, eventually, make_topics, produce


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
