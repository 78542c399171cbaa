"""The probe of the embedded Kafka reports a silent port within a bounded time."""

import socket
import subprocess
import sys

from stack.ports import LOOPBACK, free_port

# A process of its own: other tests' clients of Kafka say on this one's standard error what they miss.
_PROBE = (
    "import sys; from stack import kafka_probe; print(*kafka_probe.brokers_up(sys.argv[1], int(sys.argv[2])))"
)


def _said(port: int) -> tuple[str, str]:
    """The output of a probe of `port`: the running brokers, and messages of its client."""
    command = [sys.executable, "-c", _PROBE, LOOPBACK, str(port)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return said.stdout, said.stderr


def test_port_without_a_listener_has_no_broker_and_no_error_output() -> None:
    assert _said(free_port()) == ("\n", "")


def test_a_port_that_accepts_and_never_answers_is_no_broker() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        assert _said(server.getsockname()[1]) == ("\n", "")
