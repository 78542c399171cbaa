"""Callers share a wait for a silent Kafka instead of queueing behind it."""

import pytest

from services.ops import topic_reader
from services.ops.lake.landed_offsets import LandedOffsetsReader
from services.ops.topic_reader import TopicReader
from services.ops.transforms.reader import TransformReader
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers


@pytest.mark.parametrize("kind", [TransformReader, LandedOffsetsReader])
def test_a_caller_waits_for_another_one_only_for_seconds(
    kind: type[TopicReader[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_reader, "_TURN_SECONDS", 0.01)
    reader = kind(Brokers("127.0.0.1:1"))
    with reader._lock, pytest.raises(InfrastructureError, match="already") as raised:
        reader.read()
    assert raised.value.fault is KAFKA_UNAVAILABLE
