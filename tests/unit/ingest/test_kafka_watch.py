"""Gateway metrics about Kafka: whether Kafka answers, and how many producers were replaced."""

import asyncio

import pytest

from services.ingest import app
from services.ingest.observe.metrics import KAFKA_REACHABLE, PRODUCERS_REPLACED
from services.ingest.send.kafka_producer import ProducerInstance, ProducerManager
from services.ingest.sink import Health, MemorySink


def test_whether_kafka_answers_is_shown_without_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_KAFKA_SECONDS", 0)
    answers = [True, False, True]
    shown: list[float] = []

    class Sink(MemorySink):
        async def health(self) -> Health:
            if len(answers) < 3:
                shown.append(KAFKA_REACHABLE._value.get())
            if not answers:
                raise asyncio.CancelledError
            return Health(reachable=answers.pop(0), brokers=1, min_insync_replicas=1)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(app._watch_kafka(Sink()))
    assert shown == [1, 0, 1]


@pytest.mark.anyio
async def test_a_producer_that_is_replaced_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    producers = ProducerManager(lambda: None, 1)  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(producers, "_retire", lambda _: None)
    failed = ProducerInstance(None, 1, None)
    producers._current = failed
    before = PRODUCERS_REPLACED._value.get()
    producers.replace(failed, "a test")
    producers.replace(failed, "a test")
    assert PRODUCERS_REPLACED._value.get() == before + 1
