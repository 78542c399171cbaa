"""Events count as live while a batch of them runs, and for a moment after it."""

import pytest

from services.writer.replay.live_traffic import LiveEvents


def test_live_events_come_while_a_batch_is_under_way_and_for_a_moment_after_it() -> None:
    now = [100.0]
    live = LiveEvents(clock=lambda: now[0])
    assert not live.is_arriving()
    with live.batch():
        assert live.is_arriving()
        now[0] += 50
        assert live.is_arriving()
    assert live.is_arriving()
    now[0] += 0.9
    assert live.is_arriving()
    now[0] += 0.2
    assert not live.is_arriving()


def test_a_batch_that_fails_is_over_too() -> None:
    now = [100.0]
    live = LiveEvents(clock=lambda: now[0])
    with pytest.raises(RuntimeError), live.batch():
        raise RuntimeError
    now[0] += 1.1
    assert not live.is_arriving()
