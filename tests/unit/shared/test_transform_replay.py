"""Replay records: a process reads the records of other processes and skips those of other clients."""

import pytest

from shared.transform_replay import PARKED, Replay, ReplayOutcome, transform_of

REPLAY = Replay(job="j", event=7, attempt=2, topic_id="t", topic="events.a", partition=1, offset=5)


def test_the_header_names_the_transform_and_the_attempt() -> None:
    context = REPLAY.context("flights")

    assert Replay.of_context(context, "flights") == REPLAY
    assert Replay.of_context(context, "other") is None
    assert Replay.in_context(context) == REPLAY


@pytest.mark.parametrize(
    "context",
    [
        None,
        b"",
        b"\0",
        b"[]",
        b'{"consumer":{"type":"transform","name":"flights"}}',
        b'{"consumer":{"type":"transform","name":"flights"},"replay":{"job":"j"}}',
        b'{"consumer":{"type":"transform","name":"flights"},"replay":"j"}',
        REPLAY.context("flights").replace(b'"offset":5', b'"offset":"five"'),
        REPLAY.context("flights").replace(b'"event":7', b'"event":null'),
    ],
)
def test_a_header_of_another_client_names_no_attempt(context: bytes | None) -> None:
    assert Replay.of_context(context, "flights") is None
    assert Replay.in_context(context) is None


def test_an_outcome_is_read_as_it_was_written() -> None:
    outcome = ReplayOutcome(
        transform="flights",
        digest="d",
        replay=REPLAY,
        at=3,
        outcome=PARKED,
        reason={"code": "transform_failed"},
    )

    assert ReplayOutcome.parse(outcome.value()) == outcome
    assert outcome.key == b"j/7/2"
    assert ReplayOutcome.parse(b'{"outcome":"emitted"}') is None
    assert ReplayOutcome.parse(None) is None


def test_a_destination_names_a_transform_or_a_table() -> None:
    assert transform_of("transform:flights") == "flights"
    assert [transform_of(each) for each in ("", "/a/b", "main.public.x")] == [None] * 3
