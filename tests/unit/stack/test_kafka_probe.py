"""The probe of the embedded Kafka where no Kafka answers: it says so quietly, and does not wait for good."""

import socket

import pytest

from stack import kafka_probe
from stack.ports import LOOPBACK, free_port


def test_where_nobody_listens_no_broker_is_up_and_nothing_is_printed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert kafka_probe.brokers_up(LOOPBACK, free_port()) == frozenset()
    assert capfd.readouterr() == ("", "")


def test_a_port_that_accepts_and_never_answers_is_no_broker(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        assert kafka_probe.brokers_up(LOOPBACK, server.getsockname()[1]) == frozenset()
    assert capfd.readouterr() == ("", "")
