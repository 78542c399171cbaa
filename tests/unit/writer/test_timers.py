"""When something is due: the timer between two batches, and the pause after failures."""

import asyncio

import pytest

from services.writer.driver.loop import wait
from services.writer.model import interval_timer
from services.writer.model.interval_timer import Every
from shared import backoff
from shared.backoff import Backoff


class _Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 3.0  # a machine that has just started: its clock is lower than most pauses are long
        for module in (backoff, interval_timer):
            monkeypatch.setattr(module, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    return _Clock(monkeypatch)


def test_a_timer_is_due_from_its_time_on_until_it_is_restarted(clock: _Clock) -> None:
    timer = Every(10)
    assert not timer.is_due()
    clock.now += 10
    assert timer.is_due()
    clock.now += 25  # what comes late is done once
    assert timer.is_due()
    timer.restart()
    clock.now += 9
    assert not timer.is_due()
    clock.now += 1
    assert timer.is_due()


def test_a_timer_may_be_due_at_once(clock: _Clock) -> None:
    timer = Every(10, at_once=True)
    assert timer.is_due()
    timer.restart()
    assert not timer.is_due()
    clock.now += 10
    assert timer.is_due()


def test_pauses_grow_with_failures_in_a_row_up_to_a_bound(clock: _Clock) -> None:
    pause = Backoff()
    assert pause.is_due()
    for seconds in (0.2, 0.5, 1.0, 2.0, 5.0, 5.0):
        assert seconds * 0.8 <= pause.fail() <= seconds * 1.2
        assert not pause.is_due()
        clock.now += seconds * 1.2
        assert pause.is_due()
    pause.succeed()
    assert pause.fail() <= 0.24


@pytest.mark.usefixtures("clock")
def test_the_bound_may_be_lower() -> None:
    pause = Backoff(max_seconds=1)
    for seconds in (0.2, 0.5, 1.0, 1.0):
        assert seconds * 0.8 <= pause.fail() <= seconds * 1.2


def test_backoff_pause_can_be_set_and_the_next_failure_continues_the_count(clock: _Clock) -> None:
    pause = Backoff()
    pause.fail()
    pause.pause(0)
    assert pause.is_due()
    assert pause.fail() >= 0.4
    pause.pause(1)
    assert not pause.is_due()
    clock.now += 1
    assert pause.is_due()


def test_a_wait_that_ends_while_it_is_cancelled_is_cancelled() -> None:
    async def ends_after(steps: int) -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(wait(stop, 600))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        stop.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        was_done = task.done()
        task.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        assert was_done or task.cancelled()

    for steps in range(5):
        asyncio.run(ends_after(steps))


def test_a_wait_ends_by_its_time_or_when_it_is_stopped() -> None:
    async def waits() -> None:
        stop = asyncio.Event()
        await wait(stop, 0.001)
        stop.set()
        await wait(stop, 600)

    asyncio.run(waits())
