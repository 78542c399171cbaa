"""The health check of Kafka in docker-compose.yml, run against brokers that answer and that do not."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from stack.ports import LOOPBACK, free_port
from tests.fixtures.fix_kafka import HasBootstrap
from tests.unit.deploy import compose_file

_INSIDE = "127.0.0.1/29092"


def probe(port: int) -> int:
    """Return the exit code of the check, with the port of the test's broker."""
    test = compose_file.load()["services"]["kafka"]["healthcheck"]["test"]
    assert test[0] == "CMD"
    assert _INSIDE in test[-1]
    command = [*test[1:-1], test[-1].replace(_INSIDE, f"{LOOPBACK}/{port}")]
    return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode


def test_a_broker_that_answers_is_healthy(kafka: HasBootstrap) -> None:
    assert probe(int(kafka.bootstrap.rpartition(":")[2])) == 0


def test_a_closed_port_is_not_healthy() -> None:
    assert probe(free_port()) != 0


def test_a_port_without_an_answer_is_not_healthy() -> None:
    with closing_server() as port:
        assert probe(port) != 0


@contextmanager
def closing_server() -> Iterator[int]:
    """Accept one connection and close it without an answer, as a broker that stops."""
    with socket.create_server((LOOPBACK, 0)) as server:

        def close_one() -> None:
            server.accept()[0].close()

        thread = Thread(target=close_one)
        thread.start()
        yield server.getsockname()[1]
        thread.join(60)
