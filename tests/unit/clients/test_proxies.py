"""A proxy's response is no outcome: the client retries until the gateway itself has answered."""

import json
import logging
from email.utils import formatdate

import pytest

from clients.python.onramp_client import Onramp
from clients.python.onramp_client.backoff import MAX_RETRY_AFTER, retry_after, retry_delay
from tests.fixtures.raw_server import JSON, PROBLEM, Asked, Bytes, Worst, answer, page, problem, results, told
from tests.unit.clients.conftest import PATIENCE, Settled, send, sent, until

HEAD = b"HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
OTHERS_PROBLEM = json.dumps({"type": "about:blank", "title": "Bad Request", "status": 400}).encode()
OTHERS_REFUSAL = json.dumps({"type": "https://other.test/bad", "status": 400, "accepted": False}).encode()

NO_VERDICTS = {
    "a page with 200": page(200),
    "a page with 202": page(202),
    "nothing with 202": answer(202, b"", JSON),
    "JSON of somebody else": answer(200, b'{"ok":true}', JSON),
    "fewer results than events": answer(202, b'{"results":[]}', JSON),
    "results that are no objects": answer(202, b'{"results":[202]}', JSON),
    "a result of another event": answer(202, b'{"results":[{"id":"x","status":202,"receipt":{}}]}', JSON),
    "JSON too deep to read": answer(202, b"[" * 100_000, JSON),
    **{f"a page with {status}": page(status) for status in (400, 404, 405, 408, 422, 429, 500, 502, 504)},
    "a problem of somebody else": answer(400, OTHERS_PROBLEM, PROBLEM),
    "another's problem that looks like ours": answer(400, OTHERS_REFUSAL, PROBLEM),
    "no such path": problem(404, "not_found"),
    "a redirect": page(301, Location="http://127.0.0.1:1/elsewhere"),
    "a redirect that keeps the method": page(308, Location="/v1/events"),
    "closed without a word": Bytes(b"", cut=True),
    "closed in the headers": Bytes(HEAD[:40], cut=True),
    "closed in the body": Bytes(HEAD + b'{"results":[', cut=True),
    "no HTTP at all": Bytes(b"\x16\x03\x01 nonsense\r\n\r\n", cut=True),
    "a status that is no number": Bytes(b"HTTP/1.1 abc Said\r\n\r\n", cut=True),
    "a chunk that is none": Bytes(b"HTTP/1.1 202 Said\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", cut=True),
    "Kafka is away": problem(503),
    "nobody can tell": problem(500, "internal", accepted=None),
}


@pytest.mark.parametrize("said", NO_VERDICTS.values(), ids=list(NO_VERDICTS))
def test_response_without_an_outcome_is_retried(worst: Worst, settled: Settled, said: Bytes) -> None:
    worst.first(said)
    onramp = sent(worst, settled, "a", backoff_seconds=0.02)
    assert settled.outcomes == {"a": "accepted"}
    assert worst.ids == [["a"], ["a"]]
    assert (onramp.tally.accepted, onramp.tally.rejected, onramp.tally.unknown) == (1, 0, 0)


def test_response_that_drips_without_end_times_out_and_is_retried(worst: Worst, settled: Settled) -> None:
    endless = HEAD.replace(b"500", b"1000000")
    worst.first(Bytes(endless + b" " * 1_000_000, drip=True))
    sent(worst, settled, "a", timeout_seconds=0.5, backoff_seconds=0.02)
    assert settled.outcomes == {"a": "accepted"}


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("whose", ["proxy", "gateway"])
def test_refused_key_is_retried_until_its_rotation_and_logged_once(
    worst: Worst, settled: Settled, caplog: pytest.LogCaptureFixture, status: int, whose: str
) -> None:
    said = page(status) if whose == "proxy" else problem(status, "unauthenticated")
    worst.first(said, said, said)
    with caplog.at_level(logging.WARNING, "onramp_client"):
        sent(worst, settled, "a", backoff_seconds=0.02, key="onramp_shop_secret")
    assert settled.outcomes == {"a": "accepted"}
    assert len(worst.asked) == 4
    assert sum(str(status) in record.getMessage() for record in caplog.records) == 1
    assert "secret" not in caplog.text


def test_a_grant_that_is_missing_waits_beside_neighbours_that_settle(worst: Worst, settled: Settled) -> None:
    worst.script = lambda asked: (
        results(asked, b="403 not_granted") if len(worst.asked) < 3 else results(asked)
    )
    sent(worst, settled, "a", "b", "c", backoff_seconds=0.02)
    assert worst.ids == [["a", "b", "c"], ["b"], ["b"]]
    assert set(settled.outcomes.values()) == {"accepted"}


def test_only_the_gateways_own_word_refuses(worst: Worst, settled: Settled) -> None:
    worst.script = lambda asked: results(asked, b="422 schema_mismatch", c="503 kafka_unreachable")
    onramp = Onramp(worst.url, on_settled=settled, backoff_seconds=0.02)
    send(onramp, "a", "b", "c")
    until(lambda: len(worst.asked) >= 3)
    worst.script = results
    assert onramp.flush(PATIENCE)
    onramp.close(1.0)
    assert settled.outcomes == {"a": "accepted", "b": "rejected", "c": "accepted"}
    assert settled.of("b")["type"] == "/errors/schema_mismatch"
    assert worst.ids[:3] == [["a", "b", "c"], ["c"], ["c"]]


def test_a_batch_refused_as_one_is_asked_about_one_by_one(worst: Worst, settled: Settled) -> None:
    """One bad event affects only itself, also if the gateway's answer does not name it."""

    def script(asked: Asked) -> Bytes:
        return problem(400, "bad_json") if "bad" in asked.ids else results(asked)

    worst.script = script
    sent(worst, settled, "a", "bad", "c", "d", "e", backoff_seconds=0.02)
    assert settled.outcomes.pop("bad") == "rejected"
    assert set(settled.outcomes.values()) == {"accepted", "rejected"}
    assert [each for each, outcome in settled.outcomes.items() if outcome == "rejected"] == ["bad"]


def test_a_verdict_of_all_with_an_entry_each_is_one(worst: Worst, settled: Settled) -> None:
    entries = [{"status": 422, "id": None, "error": told(422, "bad_envelope")}] * 2
    worst.first(problem(422, "none_accepted", results=entries))
    sent(worst, settled, "a", "b")
    assert settled.outcomes == {"a": "rejected", "b": "rejected"}
    assert len(worst.asked) == 1


#: Header, and the least seconds that it asks for.
ASKED_TO_WAIT = {
    "seconds": ("1", 1.0),
    "a date": (formatdate(4_000_000_000, usegmt=True), None),
    "a date that is past": (formatdate(1, usegmt=True), 0.0),
    "centuries": ("99999999999999999999", None),
    "less than nothing": ("-5", 0.0),
    "a digit that is none": ("²", 0.0),
    "words": ("soon", 0.0),
}


@pytest.mark.parametrize(("header", "least"), ASKED_TO_WAIT.values(), ids=list(ASKED_TO_WAIT))
def test_retry_after_is_followed_within_reason(header: str, least: float | None) -> None:
    asked = retry_after({"retry-after": header}, now=1_800_000_000.0)
    assert asked == (MAX_RETRY_AFTER if least is None else least)


def test_a_date_is_compared_with_the_servers_own_clock() -> None:
    headers = {"retry-after": formatdate(1_000_030, usegmt=True), "date": formatdate(1_000_000, usegmt=True)}
    assert retry_after(headers, now=9_000_000.0) == 30.0


def test_jitter_comes_on_top_of_retry_after() -> None:
    pauses = {retry_delay(10.0, attempt, 0.2) for attempt in range(1, 30)}
    assert all(10.0 <= each <= 10.0 + 20.0 for each in pauses)
    assert len(pauses) > 20
