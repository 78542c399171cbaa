"""Patience: a call that never returns is given up, and there are few of them until they end."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from shared.patience import Patience, SilentError

SOON = 0.05
LONG = 60.0


@pytest.fixture
def thaw() -> Iterator[threading.Event]:
    """An event that ends silent calls; set at the end, so that no thread remains."""
    event = threading.Event()
    yield event
    event.set()


def test_a_call_returns_or_raises_what_was_called() -> None:
    patience = Patience(at_once=1)
    assert patience.call(lambda: 7, LONG) == 7
    with pytest.raises(ZeroDivisionError):
        patience.call(lambda: 1 // 0, LONG)
    assert patience.call(lambda: 8, LONG) == 8
    assert not patience.is_waiting


class Slow(Patience):
    """The result of a call is freed slowly, in its thread."""

    def _run(self, call: Any) -> None:
        super()._run(call)
        time.sleep(SOON)


def test_nothing_of_a_call_that_has_returned_is_under_way() -> None:
    # An object of pyarrow's that its thread still had would abort a process which ends meanwhile.
    assert not Slow().call(threading.current_thread, LONG).is_alive()


def test_silent_call_times_out_and_further_calls_fail_at_the_limit_of_pending_calls(
    thaw: threading.Event,
) -> None:
    patience = Patience(at_once=2)
    made = []

    def silent() -> None:
        made.append(threading.current_thread())
        thaw.wait()

    for _ in range(2):
        with pytest.raises(SilentError, match="no answer in 0 seconds"):
            patience.call(silent, SOON)
    assert patience.is_waiting
    with pytest.raises(SilentError, match="no answer to earlier calls"):
        patience.call(silent, LONG)  # at once: both were given up
    assert len(made) == 2
    thaw.set()
    for thread in made:
        thread.join(LONG)
    assert not patience.is_waiting
    assert patience.call(lambda: 7, LONG) == 7


def test_a_call_waits_for_room_while_others_are_answered(thaw: threading.Event) -> None:
    patience = Patience(at_once=1)
    inside, answers = threading.Event(), []

    def slow() -> int:
        inside.set()
        thaw.wait()
        return 1

    first = threading.Thread(target=lambda: answers.append(patience.call(slow, LONG)))
    first.start()
    inside.wait(LONG)
    second = threading.Thread(target=lambda: answers.append(patience.call(lambda: 2, LONG)))
    second.start()
    with pytest.raises(SilentError, match="no answer to earlier calls"):
        patience.call(lambda: 3, SOON)
    thaw.set()
    for each in (first, second):
        each.join(LONG)
    assert sorted(answers) == [1, 2]  # threads note what they got in any order


def test_the_end_gives_up_what_is_under_way_and_refuses_the_rest(thaw: threading.Event) -> None:
    patience = Patience()
    inside, refused = threading.Event(), []

    def silent() -> None:
        inside.set()
        thaw.wait()

    def ask() -> None:
        with pytest.raises(SilentError, match="the service is stopping") as told:
            patience.call(silent, LONG)
        refused.append(told.value)

    asking = threading.Thread(target=ask)
    asking.start()
    inside.wait(LONG)
    patience.end()
    asking.join(LONG)
    assert len(refused) == 1
    assert patience.is_waiting
    with pytest.raises(SilentError, match="the service is stopping"):
        patience.call(lambda: 7, LONG)
