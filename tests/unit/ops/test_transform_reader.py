"""Callers do not pile up behind one that waits for a silent Kafka."""

import pytest

from services.ops.transforms import reader
from services.ops.transforms.reader import TransformReader
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers


def test_a_caller_waits_for_another_one_only_for_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_TURN_SECONDS", 0.01)
    transforms = TransformReader(Brokers("127.0.0.1:1"))
    with transforms._lock, pytest.raises(InfrastructureError, match="already") as raised:
        transforms.read()
    assert raised.value.fault is KAFKA_UNAVAILABLE
