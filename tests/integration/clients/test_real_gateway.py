"""The Python client with the real gateway: each outcome it reports is the gateway's answer."""

import json
from typing import Any

import pytest

from clients.python.onramp_client import Onramp, send_all
from clients.python.onramp_client.lambda_handler import handler
from stack.services import Service


def test_every_event_is_accepted(gateway: Service) -> None:
    tally = send_all(gateway.url, [(f"client-{n}", "client_test", {"n": n}) for n in range(1200)])
    assert (tally.sent, tally.accepted, tally.rejected, tally.unknown) == (1200, 1200, 0, 0)


def test_batches_that_are_too_large_for_it_are_halved(gateway: Service) -> None:
    """15 MB in one request, of which the gateway takes 10."""
    with Onramp(gateway.url, batch=600, batch_bytes=2**30, gzip_over=None, linger_seconds=5.0) as onramp:
        for n in range(600):
            onramp.send("client_test", {"text": "x" * 25_000}, id=f"large-{n}")
    assert (onramp.tally.accepted, onramp.tally.rejected) == (600, 0)


def test_its_refusals_are_verdicts(gateway: Service) -> None:
    said: dict[str, tuple[str, dict[str, Any]]] = {}
    onramp = Onramp(gateway.url, on_settled=lambda each, outcome, what: said.update({each: (outcome, what)}))
    with onramp:
        onramp.send("client_test", {}, id="good")
        onramp.send("No Such Name", {}, id="bad-name")
        onramp.send("client_test", {"text": "x" * 2_000_000}, id="huge")
        onramp.send_bytes("broken", b'{"metadata":')
    assert said["good"][0] == "accepted"
    assert said["good"][1]["receipt"]["topic"] == "events.client_test"
    assert {each: what["type"] for each, (outcome, what) in said.items() if outcome == "rejected"} == {
        "bad-name": "/errors/bad_envelope",
        "huge": "/errors/event_too_large",
        "broken": "/errors/bad_json",
    }
    with Onramp(gateway.url) as alone:
        alone.send("No Such Name", {})
    assert alone.tally.rejected == 1


def test_a_lambda_hands_over_its_records(gateway: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRAMP_URL", gateway.url)
    monkeypatch.setenv("ONRAMP_EVENT_NAME", "client_test")
    record = {"messageId": "lambda-1", "body": json.dumps({"a": 1}), "attributes": {"SentTimestamp": "1"}}
    assert handler({"Records": [record]}, None) == {"batchItemFailures": []}
