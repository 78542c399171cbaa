"""The watch: who answers is waited for, who does not is silent."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from services.writer.watch import Use, Watch

_PATIENCE_S = 0.3


@pytest.fixture
def hole() -> Iterator[socket.socket]:
    """It takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def use_of(server: socket.socket, seconds: float, watch: Watch) -> Use:
    """A connection to `server` that is in use for at most so long."""
    with watch.used(f"host=127.0.0.1 port={server.getsockname()[1]}", _PATIENCE_S) as use:
        use.silent.wait(seconds)
    return use


def test_f47_who_says_nothing_is_silent(hole: socket.socket) -> None:
    assert use_of(hole, 30, Watch()).silent.is_set()


def test_who_answers_is_waited_for_however_long_it_takes(hole: socket.socket) -> None:
    def answer() -> None:
        with suppress(OSError):  # closed
            while True:
                with closing(hole.accept()[0]) as client:
                    client.recv(8)
                    client.sendall(b"N")

    threading.Thread(target=answer, daemon=True).start()
    assert not use_of(hole, 5 * _PATIENCE_S, Watch()).silent.is_set()
