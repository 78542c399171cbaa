"""Signals are raised only during waits, and only the first one has an effect."""

import os
import signal

import pytest

from stack.interrupts import Interrupts, Stopped


def test_a_signal_waits_until_it_may_be_raised() -> None:
    interrupts = Interrupts()
    with interrupts.listen():
        os.kill(os.getpid(), signal.SIGTERM)  # Nothing happens: a process may just be starting.
        with pytest.raises(Stopped), interrupts.allowed():
            pytest.fail("the signal came before, nobody may start to wait")


def test_a_signal_ends_a_wait_and_a_second_one_ends_nothing() -> None:
    interrupts = Interrupts()
    with interrupts.listen():
        with pytest.raises(Stopped), interrupts.allowed():
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts().listen():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
