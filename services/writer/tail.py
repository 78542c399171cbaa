"""Reads small batches in the driver: what many partitions have that is new, in one request.

For each partition of a batch Spark makes a reader and asks Kafka by itself: about a
millisecond each, far more while the JVM is cold, and most of the batch when each partition
has a few events (docs/adr, small batches).  Owns aiokafka for this.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from services.writer.arrivals import ARRIVALS
from services.writer.ranges import Partition, Range
from shared import wire

log = logging.getLogger(__name__)

#: Longer than any answer of a healthy Kafka; Spark has patience for the others.
_SECONDS: Final = 2.0
_POLL_MS: Final = 200
#: What the driver hands to a task travels by way of the JVM; more is better read by the task.
_MOST_BYTES: Final = 4 << 20


class Tail:
    """A consumer of every partition that the writer reads, still until it is asked for ranges."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            isolation_level="read_committed",
            # What Kafka has deleted must fail, not be passed over.
            auto_offset_reset="none",
            # A request that waits for events would hold up the next batch's.
            fetch_max_wait_ms=1,
        )

    async def start(self) -> None:
        """Connect.  Raises aiokafka's errors."""
        await self._consumer.start()

    async def stop(self) -> None:
        """Disconnect."""
        await self._consumer.stop()

    def follow(self, partitions: Iterable[Partition]) -> None:
        """Take `partitions` into view, in place of those before."""
        assigned = [TopicPartition(*p) for p in partitions]
        self._consumer.assign(assigned)
        for p in assigned:
            self._consumer.seek(p, 0)  # a partition without a position would hold up the others
        self._consumer.pause(*assigned)

    async def read(self, ranges: Sequence[Range]) -> pa.RecordBatch | None:
        """The records of `ranges`, partition by partition, as Spark would read them.

        None: Kafka does not give them at once, or they are large; Spark reads them then, and
        says what is wrong.
        """
        wanted = {TopicPartition(*r.partition): r for r in ranges}
        found: dict[TopicPartition, list[Any]] = {p: [] for p in wanted}
        for p, r in wanted.items():
            self._consumer.seek(p, r.start)
        self._consumer.resume(*wanted)
        try:
            async with asyncio.timeout(_SECONDS):
                await self._fetch(wanted, found)
        except (KafkaError, TimeoutError) as e:
            log.info("Spark reads a batch that the driver could not", extra={"reason": type(e).__name__})
            return None
        finally:
            self._consumer.pause(*wanted)
        size = sum(len(record.value or b"") for records in found.values() for record in records)
        return _as_arrivals(found) if size <= _MOST_BYTES else None

    async def _fetch(
        self, wanted: dict[TopicPartition, Range], found: dict[TopicPartition, list[Any]]
    ) -> None:
        left = dict(wanted)
        while left:
            for p, records in (await self._consumer.getmany(*left, timeout_ms=_POLL_MS)).items():
                found[p] += [record for record in records if record.offset < wanted[p].end]
            # Transaction markers and compaction leave holes: the position says where the end is.
            for p in [p for p, r in left.items() if await self._consumer.position(p) >= r.end]:
                self._consumer.pause(p)
                del left[p]


def _as_arrivals(found: dict[TopicPartition, list[Any]]) -> pa.RecordBatch:
    """What ``spark.py`` makes of records, made here."""
    columns: dict[str, list[Any]] = {name: [] for name in ARRIVALS.names}
    for p, records in found.items():
        for record in records:
            headers = dict(record.headers)  # of those with one key the last counts
            context = headers.get(wire.HEADER_CONTEXT)
            usual = context == wire.CONTEXT_BYTES
            columns["topic"].append(p.topic)
            columns["partition"].append(p.partition)
            columns["offset"].append(record.offset)
            columns["value"].append(None if context is None else record.value)
            columns["received_at"].append(headers.get(wire.HEADER_RECEIVED_AT))
            columns["timestamp"].append(record.timestamp * 1000)
            columns["wanted"].append(usual)
            columns["context"].append(None if usual else context)
    return pa.RecordBatch.from_pydict(columns, schema=ARRIVALS)
