"""Which settings of Onramp's own topics are wrong."""

import asyncio
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError

from shared.kafka_own_topics import OwnTopics, differences
from shared.settings import KafkaSettings

WANTED = {"retention.ms": "-1", "min.insync.replicas": "2", "max.message.bytes": "100"}


def test_topic_settings_that_equal_or_exceed_the_desired_values_show_no_difference() -> None:
    assert list(differences(WANTED, WANTED)) == []
    more = WANTED | {"min.insync.replicas": "3", "max.message.bytes": "200", "segment.ms": "1"}
    assert list(differences(WANTED, more)) == []


def test_less_other_and_missing_are_wrong() -> None:
    found = {"retention.ms": "60000", "min.insync.replicas": "1"}
    assert list(differences(WANTED, found)) == [
        ("retention.ms", "60000", "-1"),
        ("min.insync.replicas", "1", "2"),
        ("max.message.bytes", None, "100"),
    ]


class _Away:
    """An admin client of a broker that has ended or does not answer."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    async def describe_configs(self, _: object) -> list[object]:
        raise self._error


@pytest.mark.parametrize("error", [NodeNotReadyError, KafkaConnectionError, TimeoutError])
def test_a_look_that_a_dead_broker_was_asked_for_says_nothing_and_the_first_one_raises(
    error: type[Exception],
) -> None:
    admin: Any = _Away(error)
    own = OwnTopics(admin, KafkaSettings())
    assert asyncio.run(own.check()) is None
    with pytest.raises(error):
        asyncio.run(own.wrong())
