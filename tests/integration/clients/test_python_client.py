"""The Python client against a gateway that answers as told, and against the real one."""

import gzip
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

CLIENTS = Path(__file__).resolve().parents[3] / "clients" / "python"
sys.path.insert(0, str(CLIENTS))

from lambda_handler import handler  # noqa: E402
from onramp_client import Onramp, QueueFullError, send_all  # noqa: E402

from stack.services import Service  # noqa: E402

Answer = tuple[int, dict[str, str], Any]


class Script(ThreadingHTTPServer):
    """Answers each request by `answer`; keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[float, dict[str, str], list[dict[str, Any]]]] = []
        self.answer: Callable[[list[dict[str, Any]]], Answer | None] = all_accepted

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def ids(self) -> list[list[str]]:
        return [[e["metadata"]["id"] for e in events] for _, _, events in self.requests]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Script

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        events = [json.loads(line) for line in body.splitlines()]
        self.server.requests.append((time.monotonic(), dict(self.headers), events))
        answer = self.server.answer(events)
        if answer is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, headers, document = answer
        content = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


def all_accepted(events: list[dict[str, Any]]) -> Answer:
    return 202, {}, {"results": [{"status": 202, "id": e["metadata"]["id"]} for e in events]}


@pytest.fixture
def script() -> Iterator[Script]:
    server = Script()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_events_are_sent_in_gzipped_batches_with_the_key(script: Script) -> None:
    with Onramp(script.url, key="secret", batch=100) as onramp:
        for n in range(250):
            onramp.send("order_placed", {"n": n, "text": "x" * 50})
    assert (onramp.tally.sent, onramp.tally.accepted) == (250, 250)
    assert 3 <= len(script.requests) <= 6
    headers = script.requests[0][1]
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Encoding"] == "gzip"
    assert [e["payload"]["n"] for _, _, events in script.requests for e in events] == list(range(250))


def test_an_outage_is_retried_with_the_same_ids_after_retry_after(script: Script) -> None:
    def answer(events: list[dict[str, Any]]) -> Answer | None:
        if len(script.requests) == 1:
            return 503, {"Retry-After": "1"}, {"title": "Kafka"}
        if len(script.requests) == 2:
            return None
        return all_accepted(events)

    script.answer = answer
    with Onramp(script.url) as onramp:
        onramp.send("order_placed", {})
    assert onramp.tally.accepted == 1
    assert script.ids()[0] == script.ids()[1] == script.ids()[2]
    assert script.requests[1][0] - script.requests[0][0] >= 1.0


def test_only_what_is_not_settled_is_sent_again(script: Script) -> None:
    def answer(events: list[dict[str, Any]]) -> Answer:
        if len(script.requests) > 1:
            return all_accepted(events)
        problem = {"title": "bad"}
        statuses = [202, 422, 503]
        return 207, {}, {"results": [{"status": s, "error": problem} for s in statuses]}

    script.answer = answer
    settled: list[tuple[str, str]] = []
    with Onramp(script.url, on_settled=lambda i, outcome, _: settled.append((i, outcome))) as onramp:
        for event_id in "abc":
            onramp.send("order_placed", {}, id=event_id)
    assert script.ids() == [["a", "b", "c"], ["c"]]
    assert settled == [("a", "accepted"), ("b", "rejected"), ("c", "accepted")]
    assert (onramp.tally.accepted, onramp.tally.rejected, onramp.tally.unknown) == (2, 1, 0)
    assert onramp.tally.problems == [{"title": "bad"}]


def test_a_refused_request_is_not_sent_again(script: Script) -> None:
    script.answer = lambda _: (401, {}, {"title": "no key"})
    with Onramp(script.url) as onramp:
        onramp.send("order_placed", {})
    assert len(script.requests) == 1
    assert onramp.tally.rejected == 1


def test_what_never_settles_is_unknown(script: Script) -> None:
    script.answer = lambda _: (503, {}, {})
    began = time.monotonic()
    onramp = Onramp(script.url, give_up_seconds=0.5)
    onramp.send("order_placed", {})
    assert onramp.flush(10)
    assert time.monotonic() - began < 8
    assert onramp.close().unknown == 1


def test_close_gives_up_in_time_while_nobody_answers() -> None:
    onramp = Onramp("http://127.0.0.1:1")
    onramp.send("order_placed", {})
    began = time.monotonic()
    tally = onramp.close(timeout_seconds=0.5)
    assert time.monotonic() - began < 3
    assert tally.unknown == 1


def test_the_queue_is_bounded(script: Script) -> None:
    script.answer = lambda _: (503, {"Retry-After": "1"}, {})
    onramp = Onramp(script.url, queue_size=10, batch=5)
    with pytest.raises(QueueFullError):
        any(not onramp.send("order_placed", {}) for _ in range(100))
    tally = onramp.close(timeout_seconds=0.1)
    assert tally.sent == tally.unknown
    assert tally.sent <= 16


def test_what_is_queued_is_flushed_at_exit(script: Script) -> None:
    program = (
        f"from onramp_client import Onramp; Onramp({script.url!r}).send('order_placed', {{}}, id='last')"
    )
    subprocess.run([sys.executable, "-c", program], cwd=CLIENTS, check=True, timeout=30)
    assert script.ids() == [["last"]]


def test_payloads_that_are_no_json_are_refused_at_once(script: Script) -> None:
    with Onramp(script.url) as onramp:
        for wrong in ({"a": float("nan")}, {"a": object()}):
            with pytest.raises((ValueError, TypeError)):
                onramp.send("order_placed", wrong)
    assert onramp.tally.sent == 0
    assert not script.requests


def sqs(*ids: str) -> dict[str, Any]:
    return {"Records": [{"messageId": i, "body": json.dumps({"id": i})} for i in ids]}


def test_a_lambda_reports_what_was_not_accepted(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRAMP_URL", script.url)

    def answer(events: list[dict[str, Any]]) -> Answer:
        status = {"bad": 422}
        results = [{"status": status.get(e["metadata"]["id"], 202)} for e in events]
        return 207, {}, {"results": results}

    script.answer = answer
    assert handler(sqs("a", "bad", "c"), None) == {"batchItemFailures": [{"itemIdentifier": "bad"}]}
    assert handler(sqs("a"), None) == {"batchItemFailures": []}


def test_against_the_real_gateway(gateway: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    tally = send_all(gateway.url, [(f"client-{n}", "client_test", {"n": n}) for n in range(1200)])
    assert (tally.sent, tally.accepted, tally.rejected, tally.unknown) == (1200, 1200, 0, 0)

    monkeypatch.setenv("ONRAMP_URL", gateway.url)
    assert handler(sqs("lambda-1"), None) == {"batchItemFailures": []}
