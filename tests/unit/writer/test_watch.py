"""The watch: a server with signs of activity is waited for, a server without activity is silent."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from shared.postgres.deadlines import Use, Watch

_PATIENCE_SECONDS = 0.8
_LONG_S = 60.0

Serve = Callable[[socket.socket], Any]


class Hole:
    """A server that accepts connections, and treats the n-th as the test requests."""

    def __init__(self, address: Any = ("127.0.0.1", 0), family: int = socket.AF_INET) -> None:
        self.listener = socket.socket(family)
        self.listener.bind(address)
        self.listener.listen()
        self.asked = 0
        self._clients: list[socket.socket] = []
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # not where it listens only
            self.listener.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join()
        self.listener.close()
        for client in self._clients:
            client.close()

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.listener.getsockname()[1]}"

    def answers(self, serve: Serve = lambda client: client.sendall(b"N"), after: int = 0) -> "Hole":
        def run() -> None:
            with suppress(OSError):  # closed
                while True:
                    client = self.listener.accept()[0]
                    self._clients.append(client)
                    threading.Thread(target=one, args=(client,), daemon=True).start()

        def one(client: socket.socket) -> None:
            with suppress(OSError):  # the asker is gone
                client.recv(8)
                self.asked += 1
                if self.asked > after:
                    serve(client)

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        return self


@pytest.fixture
def hole() -> Iterator[Hole]:
    with Hole() as server:
        yield server


@pytest.fixture
def other() -> Iterator[Hole]:
    with Hole() as server:
        yield server


def use_of(server: Hole, seconds: float, watch: Watch, patience_seconds: float = _PATIENCE_SECONDS) -> Use:
    """A connection to `server` that is in use for at most so long."""
    with watch.used(server.dsn, patience_seconds) as use:
        use.silent.wait(seconds)
    return use


def pass_patiences(watch: Watch, count: int, patience_seconds: float = _PATIENCE_SECONDS) -> None:
    """Return when `watch` itself has counted so many patiences."""
    with Hole() as silent:
        for _ in range(count):
            assert use_of(silent, _LONG_S, watch, patience_seconds).silent.is_set()


@contextmanager
def attached(
    watch: Watch, patience_seconds: float, listener: socket.socket, host: str = "db.example.invalid"
) -> Iterator[tuple[Use, socket.socket, socket.socket]]:
    """A connection to `listener` in use, and both of its ends; libpq reports `host` for it."""
    with ExitStack() as stack:
        client = stack.enter_context(socket.socket(listener.family))
        client.connect(listener.getsockname())
        server = stack.enter_context(listener.accept()[0])
        conn: Any = SimpleNamespace(fileno=client.fileno, info=SimpleNamespace(host=host, port=1))
        use = stack.enter_context(watch.used("host=a,b", patience_seconds))
        watch.attach(use, conn)
        yield use, client, server


def test_server_that_sends_nothing_is_silent(hole: Hole) -> None:
    assert use_of(hole, _LONG_S, Watch()).silent.is_set()


def test_server_that_answers_probes_is_waited_for_however_long_it_takes(hole: Hole) -> None:
    watch = Watch()
    hole.answers()
    with watch.used(hole.dsn, _PATIENCE_SECONDS) as use:
        pass_patiences(watch, 3)
        assert not use.silent.is_set()
    assert hole.asked > 1


def test_a_lost_question_is_asked_again(hole: Hole) -> None:
    watch = Watch()
    hole.answers(after=1)
    with watch.used(hole.dsn, 2 * _PATIENCE_SECONDS) as use:
        pass_patiences(watch, 2, 2 * _PATIENCE_SECONDS)
        assert not use.silent.is_set()


def test_patience_of_each_server_is_independent_of_other_servers(hole: Hole, other: Hole) -> None:
    watch = Watch()
    passed = threading.Event()
    hole.answers(lambda client: passed.wait(_LONG_S) and client.sendall(b"N"))
    other.answers()
    with (
        watch.used(other.dsn, _PATIENCE_SECONDS) as quick,
        watch.used(hole.dsn, 6 * _PATIENCE_SECONDS) as slow,
    ):
        pass_patiences(watch, 1)
        assert hole.asked == 0  # nor is it asked as often
        pass_patiences(watch, 2)
        passed.set()
        pass_patiences(watch, 4)
        assert not quick.silent.is_set()
        assert not slow.silent.is_set()


def test_use_that_begins_during_a_long_interval_has_its_full_patience(hole: Hole, other: Hole) -> None:
    watch = Watch()
    other.answers()
    with watch.used(hole.dsn, 1000.0):
        for _ in range(3):
            assert not use_of(other, _PATIENCE_SECONDS, watch).silent.is_set()


def test_the_server_of_a_connection_is_asked_where_it_is_and_not_by_its_name(hole: Hole) -> None:
    watch = Watch()
    with attached(watch, _PATIENCE_SECONDS, hole.listener) as (use, _, _):
        hole.answers()
        pass_patiences(watch, 2)
        assert not use.silent.is_set()
    assert hole.asked


@pytest.mark.parametrize("address", ["{}/.s.PGSQL.5432", "\0onramp-{}"])
def test_sockets_of_unix_are_asked_too(tmp_path: Path, address: str) -> None:
    watch = Watch()
    with (
        Hole(address.format(tmp_path), socket.AF_UNIX) as server,
        attached(watch, _PATIENCE_SECONDS, server.listener) as (use, _, _),
    ):
        server.answers()
        pass_patiences(watch, 2)
        assert not use.silent.is_set()
    assert server.asked


def test_bytes_sent_by_the_server_count_as_activity(hole: Hole) -> None:
    """A server whose probes are never answered."""
    with attached(Watch(), 1.5, hole.listener) as (use, client, server):
        for _ in range(40):
            server.sendall(b"x")
            assert client.recv(1) == b"x"
            assert not use.silent.wait(0.05)
        assert use.silent.wait(_LONG_S)  # and then it is not


@pytest.fixture(params=["tcp", "unix"])
def either(request: pytest.FixtureRequest, hole: Hole, tmp_path: Path) -> Iterator[Hole]:
    with Hole(str(tmp_path / "s"), socket.AF_UNIX) as server:
        yield hole if request.param == "tcp" else server


def test_bytes_received_by_the_server_count_as_activity(either: Hole) -> None:
    with attached(Watch(), 1.5, either.listener) as (use, client, server):
        client.setblocking(False)
        fill(client)
        for _ in range(40):
            if client.family == socket.AF_INET:  # whose window opens by large steps
                server.recv(1 << 16)
                fill(client)
            else:
                server.recv(1 << 12)
            assert not use.silent.wait(0.05)
        fill(client)
        assert use.silent.wait(_LONG_S)


def fill(client: socket.socket) -> None:
    with suppress(BlockingIOError):
        while True:
            client.send(bytes(1 << 16))


def test_bytes_buffered_by_a_stopped_server_are_no_activity_for_another_connection(hole: Hole) -> None:
    """The kernel buffers some data; the next attempt must not delay other callers."""
    watch = Watch()
    with attached(watch, 1.0, hole.listener) as (use, _, _):
        for _ in range(100):
            with attached(watch, 1.0, hole.listener) as (_, client, _):
                client.sendall(b"x")
                if use.silent.wait(0.2):
                    break
        assert use.silent.is_set()


def test_a_watch_without_room_for_a_thread_goes_on(hole: Hole, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    full = threading.Event()
    start = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        if self.name == "ask" and not refused.is_set():
            full.set()
            raise RuntimeError("can't start new thread")
        start(self)

    refused = threading.Event()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with watch.used(hole.dsn, _PATIENCE_SECONDS) as use:
        assert full.wait(_LONG_S)
        assert not use.silent.wait(2 * _PATIENCE_SECONDS)  # who was not asked is not silent
        refused.set()
        assert use.silent.wait(_LONG_S)
