"""Batches for partitions without a leader move to the second producer and wait there for a bounded time."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator
from aiokafka.producer.transaction_manager import TransactionManager
from aiokafka.structs import TopicPartition

from services.ingest.send import second_producer
from services.ingest.send.kafka_producer import ProducerInstance
from services.ingest.send.second_producer import (
    METADATA_PAUSE_SECONDS,
    NO_LEADER,
    SecondProducer,
    TopicGone,
    make_movable,
    pause_metadata_requests,
)

pytestmark = pytest.mark.anyio


def test_an_election_is_waited_for_and_a_topic_that_is_gone_is_not() -> None:
    now: list[float] = [1000.0]
    leader: list[int | None] = [None]
    gone = TopicGone(lambda: now[0], lambda: leader[0])

    assert not gone()
    leader[0] = NO_LEADER
    now[0] += 10_000
    assert not gone()
    leader[0] = None
    assert not gone()
    now[0] += 29
    assert not gone()
    now[0] += 2
    assert gone()


async def test_metadata_are_asked_for_with_a_pause_however_fast_the_answers_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    did: list[Any] = []

    async def pause(seconds: float) -> None:
        did.append(seconds)

    async def ask(*given: Any) -> bool:
        did.append(given)
        return True

    monkeypatch.setattr(second_producer.asyncio, "sleep", pause)
    producer = SimpleNamespace(client=SimpleNamespace(_metadata_update=ask))
    pause_metadata_requests(producer)

    assert await producer.client._metadata_update("cluster", "topics")
    assert did == [0.1, ("cluster", "topics")]


async def test_concurrent_metadata_refreshes_are_merged_and_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [1000.0], []
    loop = SimpleNamespace(time=lambda: now[0])
    monkeypatch.setattr("asyncio.get_running_loop", lambda: loop)
    client = SimpleNamespace(force_metadata_update=lambda: asked.append(now[0]))
    instance = ProducerInstance(SimpleNamespace(client=client), 15)  # type: ignore[arg-type]
    for _ in range(100):
        instance.refresh_metadata()
    now[0] += METADATA_PAUSE_SECONDS
    for _ in range(100):
        instance.refresh_metadata()

    assert asked == [1000.0, 1000.0 + METADATA_PAUSE_SECONDS]


class Leaders(dict[TopicPartition, int]):
    """The part of aiokafka's cluster that these tests need."""

    leader_for_partition = dict.get


def producer_of(leaders: Leaders) -> Any:
    """The mover of batches and its second producer, without a connection."""
    numbers = TransactionManager(None, 60_000)
    numbers.set_pid_and_epoch(7, 0)
    client = SimpleNamespace(cluster=leaders, add_topic=lambda _: None)
    accumulator = MessageAccumulator(leaders, 1000, 0, 60, txn_manager=numbers)
    return make_movable(
        SimpleNamespace(_message_accumulator=accumulator, _sender=SimpleNamespace(), client=client)  # type: ignore[arg-type]
    )


async def queued(producer: Any, tp: TopicPartition) -> Any:
    builder = BatchBuilder(1000, 0)
    builder.append(timestamp=None, key=b"k", value=b"v")
    await producer._message_accumulator.add_batch(builder, tp, 1)
    return producer._message_accumulator._batches[tp][0]


FRESH, LOST, LED, MUTED = (TopicPartition("events.a", n) for n in range(4))


async def test_leaderless_batch_moves_whether_it_was_sent_before_or_not() -> None:
    leaders = Leaders({FRESH: NO_LEADER, LOST: 1, LED: 1, MUTED: NO_LEADER})
    first, other = producer_of(leaders), producer_of(leaders)
    second = SecondProducer(lambda: other, lambda _: None)
    second.attach(first)
    lost = await queued(first, LOST)
    at_first, at_second = first._message_accumulator, other._message_accumulator
    at_first.drain_by_nodes(ignore_nodes=())
    at_first.reenqueue(lost)  # what aiokafka does when a connection broke
    leaders[LOST] = NO_LEADER
    fresh, led, muted = [await queued(first, tp) for tp in (FRESH, LED, MUTED)]

    batches, asks = at_first.drain_by_nodes(ignore_nodes=(), muted_partitions={MUTED})
    assert (batches, asks) == ({1: {LED: led}}, False)
    assert {tp: list(waiting) for tp, waiting in at_second._batches.items()} == {FRESH: [fresh], LOST: [lost]}
    assert {tp: list(waiting) for tp, waiting in at_first._batches.items()} == {MUTED: [muted]}
    assert at_first._pending_batches == {led}
    assert [second.holds(*tp) for tp in (FRESH, LOST, LED, MUTED)] == [True, True, False, False]

    leaders.update({FRESH: 2, LOST: 2})
    assert at_second.drain_by_nodes(ignore_nodes=()) == ({2: {FRESH: fresh, LOST: lost}}, False)
    # With the sequence numbers of the first producer, which goes on after them.
    assert at_second._txn_manager.sequence_number(FRESH) == 0
    assert at_first._txn_manager.sequence_number(FRESH) == 1
    for batch in (fresh, lost):
        batch.done(0)


async def test_leaderless_batch_stays_while_there_is_no_second_producer() -> None:
    first = producer_of(Leaders({FRESH: NO_LEADER}))
    second = SecondProducer(lambda: None, lambda _: None)
    second.attach(first)
    fresh = await queued(first, FRESH)

    for _ in range(2):
        assert first._message_accumulator.drain_by_nodes(ignore_nodes=()) == ({}, True)
    assert [*first._message_accumulator._batches[FRESH]] == [fresh]
    assert not second.holds(*FRESH)
    assert first._message_accumulator._txn_manager.sequence_number(FRESH) == 1
