"""The port for probes answers, although clients open connections and send nothing."""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import httpx2
import pytest

from services.writer.observe.status import Status
from services.writer.observe.status_server import StatusServer
from shared import page_server
from shared.page_server import MAX_CONNECTIONS
from tests.fixtures.writer import eventually

_SCANNER = 100


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatusServer]:
    """A client with a longer timeout than its test."""
    monkeypatch.setattr(page_server, "SILENT_SECONDS", 3600.0)
    server = StatusServer(Status(), "127.0.0.1", 0).start()
    yield server
    server.stop()


def _silent(server: StatusServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def _threads() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def test_a_client_that_is_silent_is_gone_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "SILENT_SECONDS", 0.1)
    server = StatusServer(Status(), "127.0.0.1", 0).start()
    try:
        with _silent(server) as client:
            client.sendall(b"GET /healthz HT")  # half of a request is silence too
            assert client.recv(1) == b""
        eventually(lambda: _threads() == 0)
    finally:
        server.stop()


def test_a_scanner_takes_neither_threads_nor_a_probes_answer(
    server: StatusServer, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(_silent(server)) for _ in range(_SCANNER)]
        answer = httpx2.get(f"http://127.0.0.1:{server.port}/healthz", timeout=60)
        assert answer.json() == {"status": "alive"}
        assert clients[0].recv(1) == b"", "the oldest made room"
        eventually(lambda: _threads() <= MAX_CONNECTIONS)
    eventually(lambda: _threads() == 0)
    assert caplog.records == []


def test_an_error_of_a_page_is_a_line_of_the_log(
    server: StatusServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def page(_: Status) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(Status, "page", page)
    with caplog.at_level(logging.ERROR), pytest.raises(httpx2.HTTPError):
        httpx2.get(f"http://127.0.0.1:{server.port}/metrics", timeout=60)
    assert [record.message for record in caplog.records] == ["a page could not be built"]
