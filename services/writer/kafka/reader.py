"""Reads small batches in the driver: what many partitions have that is new, in one request.

For each partition of a batch Spark makes a reader and asks Kafka by itself: about a
millisecond each, far more while the JVM is cold, and most of the batch when each partition
has a few events (docs/adr, small batches).  Owns aiokafka for this.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from aiokafka import AIOKafkaConsumer, TopicPartition

from services.writer.model.offsets import Partition, Range
from services.writer.model.records import ARRIVALS, FIRST_MS, LAST_MS, Headers
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

Records = dict[TopicPartition, list[Any]]

#: Longer than any answer of a healthy Kafka; Spark has patience for the others.
_SECONDS: Final = 2.0
_POLL_MS: Final = 200
#: So many batches in a row that took too long.
_PATIENCE: Final = 3
#: What the driver hands to a task travels by way of the JVM; more is better read by the task.
_MOST_BYTES: Final = 4 << 20


class BatchReader:
    """A consumer of every partition that the writer reads, still until it is asked for ranges."""

    def __init__(self, brokers: Brokers) -> None:
        self._consumer = AIOKafkaConsumer(
            **brokers.aiokafka(),
            enable_auto_commit=False,
            isolation_level="read_committed",
            # What Kafka has deleted must fail, not be passed over.
            auto_offset_reset="none",
            # A request that waits for events would hold up the next batch's.
            fetch_max_wait_ms=1,
        )
        self._timeouts = 0

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

        None: Kafka does not give them at once, they are large, or this client cannot read them (a
        header whose key is no UTF-8); Spark reads them then, and says what is wrong.  Raises
        `TimeoutError` when that goes on: this consumer is stuck, and a new one may not be.
        """
        wanted = {TopicPartition(*r.partition): r for r in ranges}
        for p, r in wanted.items():
            self._consumer.seek(p, r.start)
        self._consumer.resume(*wanted)
        try:
            async with asyncio.timeout(_SECONDS):
                found = await self._fetch(wanted)
            arrivals = None if found is None else _as_arrivals(found)
        except TimeoutError:
            self._timeouts += 1
            if self._timeouts >= _PATIENCE:
                raise
            log.warning("Spark reads a batch that the driver did not get in time")
            return None
        except Exception as e:  # noqa: BLE001 - whatever one client cannot read, the other may
            log.info("Spark reads a batch that the driver could not", extra={"reason": type(e).__name__})
            return None
        finally:
            self._consumer.pause(*wanted)
        self._timeouts = 0
        return arrivals

    async def _fetch(self, wanted: dict[TopicPartition, Range]) -> Records | None:
        """The records of `wanted`; None when they are large."""
        found: Records = {p: [] for p in wanted}
        left, size = dict(wanted), 0
        while left:
            for p, records in (await self._consumer.getmany(*left, timeout_ms=_POLL_MS)).items():
                ours = [record for record in records if record.offset < wanted[p].end]
                found[p] += ours
                size += sum(map(_bytes, ours))
            if size > _MOST_BYTES:
                return None
            # Transaction markers and compaction leave holes: the position says where the end is.
            for p in [p for p, r in left.items() if await self._consumer.position(p) >= r.end]:
                self._consumer.pause(p)
                del left[p]
        return found


def _bytes(record: Any) -> int:
    """What `record` holds: who sends it chooses its key and headers as well."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def _as_arrivals(found: Records) -> pa.RecordBatch:
    """What ``spark.py`` makes of records, made here."""
    columns: dict[str, list[Any]] = {name: [] for name in ARRIVALS.names}
    for p, records in found.items():
        for record in records:
            headers = Headers.of(dict(record.headers))  # of those with one key the last counts
            columns["topic"].append(p.topic)
            columns["partition"].append(p.partition)
            columns["offset"].append(record.offset)
            columns["value"].append(None if headers.context is None else record.value)
            columns["received_at"].append(headers.received_at)
            columns["timestamp"].append(record.timestamp)
            columns["context"].append(headers.context)
    timestamps = np.clip(np.array(columns["timestamp"], np.int64), FIRST_MS, LAST_MS) * 1000
    arrays = columns | {"timestamp": pa.array(timestamps).cast(ARRIVALS.field("timestamp").type)}
    return pa.RecordBatch.from_pydict(arrays, schema=ARRIVALS)
