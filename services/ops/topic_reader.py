"""Reads topics of Onramp once, and later their new records alone: the topics grow, and pages are polled."""

import asyncio
import threading
from collections.abc import Mapping
from typing import ClassVar, Final, Generic, TypeVar

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs, LogRecord
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers

#: Seconds that a caller waits for another one: while Kafka is silent, callers would pile up in their threads.
_TURN_SECONDS: Final = 5.0

F = TypeVar("F")


class TopicReader(Generic[F]):
    """Reads the facts of its topics on each call, so a caller sees its own changes; for many threads."""

    topics: ClassVar[tuple[str, ...]]

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._lock = threading.Lock()
        self._topic_ids: dict[str, str | None] = {}
        self._next: dict[Source, int] = {}

    def read(self) -> F:
        """Return the facts.  Raise `InfrastructureError`, also if others have waited for Kafka for long."""
        if not self._lock.acquire(timeout=_TURN_SECONDS):
            raise InfrastructureError(KAFKA_UNAVAILABLE, "other requests wait for Kafka already")
        try:
            return asyncio.run(self._read())
        finally:
            self._lock.release()

    async def _read(self) -> F:
        """Return the facts after `_read_new`."""
        raise NotImplementedError

    async def _read_new(self, logs: KafkaLogs, topic_ids: Mapping[str, str]) -> None:
        """Add the records since the last call; a topic that was created again is read from its start."""
        own_ids = {name: topic_ids.get(name) for name in self.topics}
        if own_ids != self._topic_ids:
            self._topic_ids = own_ids
            self._next.clear()
            self._forget()
        spans = await logs.spans(self.topics)
        new = {source: (max(first, self._next.get(source, 0)), end) for source, (first, end) in spans.items()}
        async for record in logs.read(new):
            self._add(record)
        self._next |= {source: end for source, (_, end) in spans.items()}

    def _add(self, record: LogRecord) -> None:
        """Add a record, also one that was added before a failure."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Forget all records."""
        raise NotImplementedError
