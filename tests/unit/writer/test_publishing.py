"""A record that its topic refuses is distinguished from an unreachable Kafka."""

import asyncio
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError, MessageSizeTooLargeError

from services.writer.kafka.producer import Record, TooLargeError, is_expected, send_all
from shared.errors import KAFKA_UNAVAILABLE, RECORD_TOO_LARGE, InfrastructureError
from shared.topics import OWN_TOPICS


class _Producer:
    """Accepts records up to a size; larger ones are refused by the broker or by the client."""

    def __init__(self, most: int, *, itself: bool = False, error: KafkaError | None = None) -> None:
        self._most, self._itself = most, itself
        self._error = error or MessageSizeTooLargeError()

    async def partitions_for(self, _: str) -> set[int]:
        return {0}

    async def send(self, _: str, **record: Any) -> "asyncio.Future[Any]":
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if len(record["value"]) <= self._most:
            done.set_result(type("Metadata", (), {"partition": 0, "offset": 7}))
        elif self._itself:
            raise self._error
        else:
            done.set_exception(self._error)
        return done


def _send(producer: Any, *sizes: int) -> Any:
    return asyncio.run(send_all(producer, [Record("own", b"", b"x" * n) for n in sizes]))


@pytest.mark.parametrize("itself", [True, False])
@pytest.mark.parametrize("size", [20, 3 << 20])
def test_record_refused_for_its_size_raises_too_large_and_is_no_outage(size: int, *, itself: bool) -> None:
    with pytest.raises(TooLargeError, match=f"{size:,} bytes, more than own takes") as raised:
        _send(_Producer(10, itself=itself), 5, size, 5)
    assert raised.value.size == size
    assert not is_expected(raised.value)


def test_the_smallest_that_was_refused_is_named() -> None:
    with pytest.raises(TooLargeError) as raised:
        _send(_Producer(10), 40, 5, 20, 30)
    assert raised.value.size == 20


def test_record_that_fits_is_sent_and_other_errors_are_raised_unchanged() -> None:
    assert [p.offset for p in _send(_Producer(10), 5, 10)] == [7, 7]
    with pytest.raises(KafkaConnectionError):
        _send(_Producer(10, error=KafkaConnectionError()), 20)
    assert is_expected(KafkaConnectionError())
    assert is_expected(InfrastructureError(KAFKA_UNAVAILABLE, ""))
    assert not is_expected(InfrastructureError(RECORD_TOO_LARGE, "as a worker says it"))
    assert not is_expected(ValueError())


def test_own_topics_accept_an_event_of_ten_mib_with_its_metadata() -> None:
    for spec in OWN_TOPICS[:3]:
        assert int(spec.config["max.message.bytes"]) >= (10 << 20) + (1 << 20)
