"""Batches are bounded by bytes and by count, and halved when a proxy or gateway accepts less."""

from clients.python.onramp_client import Onramp
from tests.fixtures.raw_server import Asked, Bytes, Worst, page, problem, results
from tests.unit.clients.conftest import PATIENCE, Settled, send, sent, until

MANY = [f"e{n}" for n in range(500)]
LIMIT = 1_000_000


def limited(asked: Asked, refusal: Bytes, limit: int = LIMIT) -> Bytes:
    return refusal if sum(map(len, asked.lines)) > limit else results(asked)


def test_500_good_events_of_25_kb_are_accepted(worst: Worst, settled: Settled) -> None:
    worst.script = lambda asked: limited(asked, problem(413, "body_too_large"), 10 * 2**20)
    with Onramp(worst.url, on_settled=settled, queue_bytes=2**30) as onramp:
        send(onramp, *MANY, text="x" * 25_000)
    assert (onramp.tally.accepted, onramp.tally.rejected, onramp.tally.unknown) == (500, 0, 0)
    assert set(settled.outcomes) == set(MANY)
    assert max(sum(map(len, asked.lines)) for asked in worst.asked) <= LIMIT


def test_a_batch_has_at_most_so_many_events(worst: Worst, settled: Settled) -> None:
    sent(worst, settled, *MANY, batch=100, linger_seconds=5.0)
    assert max(map(len, worst.ids)) == 100
    assert len(worst.ids) == 5


def test_a_batch_too_large_for_the_way_is_halved(worst: Worst, settled: Settled) -> None:
    for refusal in (problem(413, "body_too_large"), page(413), page(408), problem(408, "request_timeout")):
        worst.asked.clear()
        worst.script = lambda asked, refusal=refusal: limited(asked, refusal, 40_000)
        with Onramp(worst.url, on_settled=settled, backoff_seconds=0.01) as onramp:
            send(onramp, *MANY[:100], text="x" * 1_000)
        assert (onramp.tally.accepted, onramp.tally.rejected) == (100, 0)
        assert len(worst.asked) < 20


def test_a_size_that_was_refused_is_not_tried_again(worst: Worst, settled: Settled) -> None:
    worst.script = lambda asked: limited(asked, page(413), 40_000)
    onramp = Onramp(worst.url, on_settled=settled, backoff_seconds=0.01)
    send(onramp, *MANY[:100], text="x" * 1_000)
    assert onramp.flush(PATIENCE)
    worst.asked.clear()
    send(onramp, *MANY[100:200], text="x" * 1_000)
    assert onramp.close().accepted == 200
    assert max(sum(map(len, asked.lines)) for asked in worst.asked) <= 40_000


def test_oversized_event_is_rejected_alone_and_the_other_events_are_accepted(
    worst: Worst, settled: Settled
) -> None:
    for refusal in (problem(413, "body_too_large"), page(413)):
        settled.said.clear()
        worst.script = lambda asked, refusal=refusal: limited(asked, refusal, 40_000)
        with Onramp(worst.url, on_settled=settled, backoff_seconds=0.01) as onramp:
            send(onramp, "a", "b")
            send(onramp, "huge", text="x" * 50_000)
            send(onramp, "c")
        assert settled.outcomes == {"a": "accepted", "b": "accepted", "huge": "rejected", "c": "accepted"}
        assert settled.of("huge")["status"] == 413


def test_retried_batch_does_not_delay_other_batches(worst: Worst, settled: Settled) -> None:
    worst.script = lambda asked: problem(503, retry_after="60") if "first" in asked.ids else results(asked)
    onramp = Onramp(worst.url, on_settled=settled, batch=1, connections=1)
    send(onramp, "first", *MANY[:20])
    until(lambda: len(settled.said) == 20)
    assert "first" not in settled.outcomes
    assert onramp.close(0.1).unknown == 1
    assert settled.outcomes["first"] == "unknown"


def test_a_raising_callback_stops_nothing(worst: Worst) -> None:
    seen = []

    def settled(event_id: str, *_: object) -> None:
        seen.append(event_id)
        raise SystemExit(f"{event_id} and I raise")

    onramp = Onramp(worst.url, on_settled=settled, batch=1)
    send(onramp, *MANY[:10])
    assert onramp.flush(PATIENCE)
    send(onramp, "later")
    assert onramp.flush(PATIENCE)
    assert onramp.close().accepted == 11
    assert sorted(seen) == sorted([*MANY[:10], "later"])
