"""The client as a program uses it: a bounded queue, a timely close and a reported outcome."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from clients.python.onramp_client import VERSION, Onramp, QueueFullError
from tests.fixtures.raw_server import Bytes, Worst, page, problem, results
from tests.unit.clients.conftest import PATIENCE, Settled, send, sent, until

CLIENT = Path(__file__).resolve().parents[3] / "clients" / "python"


def test_events_are_sent_in_order_in_gzipped_batches_with_key_and_version(worst: Worst) -> None:
    with Onramp(worst.url, key="secret", batch=100, connections=1) as onramp:
        for n in range(250):
            onramp.send("order_placed", {"text": "x" * 50}, id=f"e{n}")
    assert (onramp.tally.sent, onramp.tally.accepted) == (250, 250)
    assert [each for ids in worst.ids for each in ids] == [f"e{n}" for n in range(250)]
    headers = worst.asked[0].headers
    assert headers["authorization"] == "Bearer secret"
    assert headers["content-encoding"] == "gzip"
    assert headers["user-agent"].startswith(f"onramp-client/{VERSION} python/3.")
    assert len({asked.peer for asked in worst.asked}) == 1


def test_a_retry_is_the_same_bytes(worst: Worst) -> None:
    worst.first(page(502), Bytes(b"", cut=True))
    with Onramp(worst.url, backoff_seconds=0.01) as onramp:
        onramp.send("order_placed", {"a": 1})
    assert onramp.tally.accepted == 1
    assert len({b"".join(asked.lines) for asked in worst.asked}) == 1
    assert len(worst.asked) == 3


def test_a_connection_that_was_closed_while_idle_costs_no_pause(worst: Worst, settled: Settled) -> None:
    worst.script = lambda asked: Bytes(results(asked).content, cut=True)
    onramp = Onramp(worst.url, on_settled=settled, backoff_seconds=1000.0, connections=1)
    for event_id in "abc":
        send(onramp, event_id)
        assert onramp.flush(PATIENCE)
    assert onramp.close().accepted == 3
    assert onramp.tally.problems == []


def test_early_response_to_an_unfinished_body_is_read(worst: Worst, settled: Settled) -> None:
    worst.early = lambda headers: page(413) if int(headers["content-length"]) > 300_000 else None
    with Onramp(worst.url, on_settled=settled, gzip_over=None, backoff_seconds=0.01) as onramp:
        for n in range(100):
            onramp.send("order_placed", {"text": "x" * 8_000}, id=f"e{n}")
        assert onramp.flush(PATIENCE)
        send(onramp, "huge", text="x" * 20_000_000)
        assert onramp.flush(PATIENCE)
    assert (onramp.tally.accepted, onramp.tally.rejected) == (100, 1)
    assert settled.of("huge")["status"] == 413


def test_event_that_never_settles_is_unknown_with_the_last_response(worst: Worst, settled: Settled) -> None:
    worst.script = lambda _: problem(503)
    tally = sent(worst, settled, "a", give_up_seconds=0.1, backoff_seconds=0.02).tally
    assert (tally.unknown, tally.accepted) == (1, 0)
    assert settled.of("a")["type"] == "/errors/kafka_unreachable"


def test_close_ends_in_time_while_an_answer_does_not_come(worst: Worst, settled: Settled) -> None:
    goes_on = threading.Event()

    def script(asked: Any) -> Bytes:
        goes_on.wait(10 * PATIENCE)
        return results(asked)

    worst.script = script
    onramp = Onramp(worst.url, on_settled=settled, timeout_seconds=10 * PATIENCE)
    send(onramp, "a")
    until(lambda: worst.asked)
    others = set(threading.enumerate())
    assert onramp.close(0.1).unknown == 1
    until(lambda: not any(each.is_alive() for each in others if each.name == "onramp-client"))
    goes_on.set()
    assert settled.said == [("a", "unknown", {})]


def test_refused_connection_is_reported(settled: Settled) -> None:
    onramp = Onramp("http://127.0.0.1:1", on_settled=settled, backoff_seconds=0.01)
    send(onramp, "a")
    until(lambda: onramp.tally.problems)
    assert onramp.close(0.1).unknown == 1
    assert "ConnectionRefusedError" in settled.of("a")["detail"]


def test_the_queue_is_bounded_by_events_and_by_bytes(worst: Worst) -> None:
    worst.script = lambda _: problem(503)
    for bounds in ({"queue_size": 10}, {"queue_bytes": 2_000}):
        onramp = Onramp(worst.url, **bounds)  # type: ignore[arg-type]
        with pytest.raises(QueueFullError):
            any(not onramp.send("order_placed", {"text": "x" * 80}) for _ in range(100))
        tally = onramp.close(0.1)
        assert tally.sent == tally.unknown
        assert 2 <= tally.sent <= 10


def test_room_is_waited_for(worst: Worst) -> None:
    with Onramp(worst.url, queue_size=1, linger_seconds=0.0) as onramp:
        for _ in range(20):
            onramp.send("order_placed", {}, block_seconds=PATIENCE)
    assert onramp.tally.accepted == 20


def test_queued_events_are_flushed_at_exit(worst: Worst) -> None:
    program = f"from onramp_client import Onramp; Onramp({worst.url!r}).send('order_placed', {{}}, id='last')"
    subprocess.run([sys.executable, "-c", program], cwd=CLIENT, check=True, timeout=200)
    assert worst.ids == [["last"]]


def test_payloads_that_are_no_json_are_refused_at_once(worst: Worst) -> None:
    with Onramp(worst.url) as onramp:
        for wrong in ({"a": float("nan")}, {"a": object()}):
            with pytest.raises((ValueError, TypeError)):
                onramp.send("order_placed", wrong)
    assert onramp.tally.sent == 0
    assert not worst.asked


def test_a_closed_client_takes_nothing(worst: Worst) -> None:
    onramp = Onramp(worst.url)
    onramp.close()
    with pytest.raises(ValueError, match="closed"):
        onramp.send("order_placed", {})


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "http://", "http://x:y", "http://key@host"])
def test_invalid_gateway_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        Onramp(url)


def test_a_prefix_is_part_of_the_way(worst: Worst, settled: Settled) -> None:
    with Onramp(worst.url + "/events-in/", on_settled=settled) as onramp:
        send(onramp, "a")
    assert worst.asked[0].target == "/events-in/v1/events"


@pytest.fixture
def proxied(worst: Worst, monkeypatch: pytest.MonkeyPatch) -> Worst:
    """The server is the environment's proxy, with a name and a password."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    named = worst.url.replace("http://", "http://us%40er:pass@")
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, named)
    return worst


def test_a_proxy_is_asked_with_the_whole_url(proxied: Worst, settled: Settled) -> None:
    with Onramp("http://gateway.test:8080/in", key="k", on_settled=settled) as onramp:
        send(onramp, "a")
    assert settled.outcomes == {"a": "accepted"}
    asked = proxied.asked[0]
    assert asked.target == "http://gateway.test:8080/in/v1/events"
    assert asked.headers["host"] == "gateway.test:8080"
    assert asked.headers["proxy-authorization"] == "Basic dXNAZXI6cGFzcw=="
    assert asked.headers["authorization"] == "Bearer k"


def test_tls_goes_through_a_tunnel_that_never_sees_the_key(proxied: Worst, settled: Settled) -> None:
    proxied.script = lambda _: page(502)
    onramp = Onramp("https://gateway.test/in", key="k", on_settled=settled, backoff_seconds=0.01)
    send(onramp, "a")
    until(lambda: proxied.asked)
    onramp.close(0.1)
    assert settled.outcomes == {"a": "unknown"}
    assert proxied.asked[0].target == "gateway.test:443"
    assert proxied.asked[0].headers["proxy-authorization"] == "Basic dXNAZXI6cGFzcw=="
    assert "authorization" not in proxied.asked[0].headers


def test_a_host_may_be_kept_from_the_proxy(worst: Worst, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Onramp(worst.url) as onramp:
        send(onramp, "a")
    assert onramp.tally.accepted == 1


def test_bodies_are_plain_where_gzip_is_not_wanted(worst: Worst) -> None:
    with Onramp(worst.url, gzip_over=None) as onramp:
        send(onramp, "a", text="x" * 5_000)
    assert "content-encoding" not in worst.asked[0].headers
