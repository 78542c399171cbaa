"""Reads the states and the totals of transforms: both topics once, and later their new records alone.

The topic of totals grows with each transaction until Kafka compacts it, and pages are polled.
"""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs, LogRecord
from services.ops.transforms.kafka_totals import TransformTotals, by_transform
from shared import transform_state, wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers
from shared.transform_state import StateRecord, TransformState
from shared.transform_totals import TotalsRecord

_TOPICS: Final = (wire.TRANSFORMERS, wire.TRANSFORMED)
#: Seconds that a caller waits for another one: while Kafka is silent, callers would pile up in their threads.
_TURN_SECONDS: Final = 5.0


class TransformFacts(NamedTuple):
    """The last states and totals by transform."""

    states: Mapping[str, TransformState]
    totals: Mapping[str, TransformTotals]
    #: The last record of each transform, partition and topic generation.
    records: Sequence[TotalsRecord] = ()


NO_FACTS: Final = TransformFacts({}, {})


class TransformReader:
    """Reads the facts on each call, so a caller sees its own changes; for many threads."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._lock = threading.Lock()
        self._topic_ids: dict[str, str | None] = {}
        self._next: dict[Source, int] = {}
        self._states: dict[str, TransformState] = {}
        #: The last record of each key; None for one of another client.
        self._totals: dict[bytes | None, TotalsRecord | None] = {}

    def read(self) -> TransformFacts:
        """Return the facts.  Raise `InfrastructureError`, also if others have waited for Kafka for long."""
        if not self._lock.acquire(timeout=_TURN_SECONDS):
            raise InfrastructureError(KAFKA_UNAVAILABLE, "other requests wait for Kafka already")
        try:
            return asyncio.run(self._read())
        finally:
            self._lock.release()

    async def _read(self) -> TransformFacts:
        async with KafkaLogs(self._brokers) as logs:
            topic_ids = await logs.topic_ids()
            self._forget_recreated({name: topic_ids.get(name) for name in _TOPICS})
            spans = await logs.spans(_TOPICS)
            new = {
                source: (max(first, self._next.get(source, 0)), end) for source, (first, end) in spans.items()
            }
            async for record in logs.read(new):
                self._add(record)
            self._next |= {source: end for source, (_, end) in spans.items()}
            records = [each for each in self._totals.values() if each is not None]
            ends = await logs.spans({each.partition.topic for each in records})
        return TransformFacts(dict(self._states), by_transform(records, topic_ids, ends), records)

    def _forget_recreated(self, topic_ids: dict[str, str | None]) -> None:
        if topic_ids != self._topic_ids:
            self._topic_ids = topic_ids
            for known in (self._next, self._states, self._totals):
                known.clear()

    def _add(self, record: LogRecord) -> None:
        if record.source.topic == wire.TRANSFORMED:
            self._totals[record.key] = TotalsRecord.parse(record.value)
            return
        is_state = record.source.partition == transform_state.PARTITION
        if is_state and (parsed := StateRecord.parse(record.key, record.value)):
            self._states[parsed.transform] = parsed.state
