"""Posting is patient with a gateway that is away, and takes no for an answer at once."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stack.errors import UnavailableError
from stack.ports import free_port
from stack.posting import Poster

Answer = tuple[int, bytes, dict[str, str]]
ACCEPTED: Answer = (202, b'{"accepted":1,"rejected":0,"results":[{"status":202}]}', {})


class Server:
    """Answers what it is told to, in this order; an answer of None hangs up."""

    def __init__(self) -> None:
        self.answers: list[Answer | None] = []
        self.bodies: list[bytes] = []
        self.connections: set[object] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                outer.connections.add(self.client_address)
                outer.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                answer = outer.answers.pop(0)
                if answer is None:
                    self.close_connection = True
                    return
                status, body, headers = answer
                self.send_response(status)
                for key, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join()


@pytest.fixture
def poster(server: Server) -> Iterator[Poster]:
    poster = Poster(server.url)
    yield poster
    poster.close()


def test_one_connection_serves_many_requests(server: Server, poster: Poster) -> None:
    server.answers = [ACCEPTED] * 3
    assert [poster.post(b"[]").status for _ in range(3)] == [202] * 3
    assert len(server.connections) == 1


def test_busy_and_hung_up_are_tried_again_with_the_same_bytes(server: Server, poster: Poster) -> None:
    busy: Answer = (503, b'{"detail":"Kafka is away"}', {"Retry-After": "0"})
    server.answers = [busy, None, ACCEPTED]
    assert poster.post_patiently(b"the same", seconds=20).status == 202
    assert server.bodies == [b"the same"] * 3


@pytest.mark.parametrize("status", [207, 400, 413, 422])
def test_a_final_answer_is_not_tried_again(server: Server, poster: Poster, status: int) -> None:
    server.answers = [(status, b'{"detail":"no"}', {})]
    assert poster.post_patiently(b"x", seconds=20).status == status
    assert len(server.bodies) == 1


def test_patience_ends_with_the_last_problem(server: Server, poster: Poster) -> None:
    server.answers = [(503, b'{"detail":"Kafka is away"}', {})] * 50
    with pytest.raises(UnavailableError, match="answered 503: Kafka is away"):
        poster.post_patiently(b"x", seconds=0.3)


def test_nobody_there_is_said() -> None:
    poster = Poster(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(UnavailableError, match="ConnectionRefusedError"):
        poster.post_patiently(b"x", seconds=0)


def test_giving_up_ends_the_patience(server: Server, poster: Poster) -> None:
    server.answers = [(503, b"{}", {})] * 50
    with pytest.raises(UnavailableError):
        poster.post_patiently(b"x", seconds=600, give_up=lambda: len(server.bodies) >= 2)
    assert len(server.bodies) == 2


def test_an_answer_that_is_no_json_is_shown(server: Server, poster: Poster) -> None:
    server.answers = [(400, b"<html>a proxy says no</html>", {})]
    assert "a proxy says no" in json.dumps(poster.post(b"x").document)


def test_what_is_no_url_is_refused() -> None:
    with pytest.raises(ValueError, match="no http or https URL"):
        Poster("localhost:8080")
