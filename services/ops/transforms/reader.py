"""Reads the states and the totals of transforms: both topics once, and later their new records alone.

The topic of totals grows with each transaction until Kafka compacts it, and pages are polled.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from services.ops.kafka_logs import KafkaLogs, LogRecord
from services.ops.topic_reader import TopicReader
from services.ops.transforms.kafka_totals import TransformTotals, by_transform
from shared import transform_state, wire
from shared.kafka_security import Brokers
from shared.transform_state import StateRecord, TransformState
from shared.transform_totals import TotalsRecord


class TransformFacts(NamedTuple):
    """The last states and totals by transform."""

    states: Mapping[str, TransformState]
    totals: Mapping[str, TransformTotals]
    #: The last record of each transform, partition and topic generation.
    records: Sequence[TotalsRecord] = ()


NO_FACTS: Final = TransformFacts({}, {})


class TransformReader(TopicReader[TransformFacts]):
    """Reads the facts on each call; for many threads."""

    topics = (wire.TRANSFORMERS, wire.TRANSFORMED)

    def __init__(self, brokers: Brokers) -> None:
        super().__init__(brokers)
        self._states: dict[str, TransformState] = {}
        #: The last record of each key; None for one of another client.
        self._totals: dict[bytes | None, TotalsRecord | None] = {}

    async def _read(self) -> TransformFacts:
        async with KafkaLogs(self._brokers) as logs:
            topic_ids = await logs.topic_ids()
            await self._read_new(logs, topic_ids)
            records = [each for each in self._totals.values() if each is not None]
            ends = await logs.spans({each.partition.topic for each in records})
        return TransformFacts(dict(self._states), by_transform(records, topic_ids, ends), records)

    def _forget(self) -> None:
        self._states.clear()
        self._totals.clear()

    def _add(self, record: LogRecord) -> None:
        if record.source.topic == wire.TRANSFORMED:
            self._totals[record.key] = TotalsRecord.parse(record.value)
            return
        is_state = record.source.partition == transform_state.PARTITION
        if is_state and (parsed := StateRecord.parse(record.key, record.value)):
            self._states[parsed.transform] = parsed.state
