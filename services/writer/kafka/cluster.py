"""The driver's client of Kafka: partitions' ends, the group's offsets, the newest writer, Onramp's logs.

This module owns aiokafka for the driver.  Group offsets are the restart point and the lag that any
Kafka tool shows; only the ledgers record which offsets are settled.
"""

import asyncio
import json
import logging
import os
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.errors import KafkaError

from services.writer.kafka.foreign_records import ForeignRecords
from services.writer.kafka.producer import MAX_REQUEST_BYTES, Record, RecordMetadata, send_all
from services.writer.model import halt_reasons
from services.writer.model.next_offsets import Committed
from shared import wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_own_topics import OwnTopics
from shared.kafka_read.any_broker import AnyBroker
from shared.kafka_read.leaders import Leaders, StableOffset
from shared.kafka_read.offsets import Partition
from shared.parse_errors import UNREADABLE
from shared.polling import poll, read_to
from shared.settings import KafkaSettings
from shared.topics import OWN_TOPICS

log = logging.getLogger(__name__)

#: The partition to which each writer appends a record when it starts.
_ENTRIES: Final = TopicPartition(wire.WRITERS, 0)
_WRITER: Final = b"writer"
_OWN: Final = tuple(spec.name for spec in OWN_TOPICS)
#: Longer than an election, and shorter than the loop's timeout, so that the error can name the partitions.
_LEADERS_SECONDS: Final = 6.0
_AGAIN_SECONDS: Final = 0.1
#: A new Kafka creates the groups' topic at the first request for a coordinator.
_COORDINATOR_SECONDS: Final = 15.0

_Ask = Callable[[Iterable[Partition]], Awaitable[dict[Partition, int]]]


class Cluster:
    """The driver's connections to Kafka."""

    def __init__(self, settings: KafkaSettings, pattern: str) -> None:
        self._settings = settings
        self._pattern = re.compile(pattern)
        common = settings.brokers.aiokafka()
        self._admin = AnyBroker(settings.brokers)
        self.own_topics = OwnTopics(self._admin, settings)
        self._consumer = AIOKafkaConsumer(
            **common,
            group_id=wire.WRITER_GROUP,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        self.foreign = ForeignRecords()
        #: The offset below which records of `onramp.writers` were read.
        self._read_upto = 0
        self._leaders = Leaders(settings.brokers)
        self._follows_own = False
        #: Topic generations other than the current one; committed with the group's offsets as metadata.
        self.generations: dict[Partition, str] = {}
        self._producer = AIOKafkaProducer(
            **common, acks="all", enable_idempotence=True, max_request_size=MAX_REQUEST_BYTES
        )
        # For single records: the minimum that Kafka sends is one batch of the log.
        self._record_consumer = AIOKafkaConsumer(
            **common, enable_auto_commit=False, max_partition_fetch_bytes=1
        )

    async def start(self) -> Self:
        """Connect.  Raise aiokafka's errors."""
        await self._admin.start()
        await self._producer.start()
        await self._consumer.start()
        await self._leaders.start()
        await self._record_consumer.start()
        return self

    async def stop(self) -> None:
        """Disconnect, in reverse order."""
        await self._record_consumer.stop()
        await self._leaders.stop()
        await self._consumer.stop()
        await self._producer.stop()
        await self._admin.close()

    async def cluster_id(self) -> str:
        """Return the cluster's id, which changes if the cluster is set up again."""
        return str((await self._admin.describe_cluster())["cluster_id"])

    async def topic_ids(self) -> dict[str, str]:
        """Return Kafka's UUIDs of all topics.  Raise aiokafka's errors."""
        return await self._admin.topic_ids()

    async def retentions(self, topics: Collection[str]) -> dict[str, float]:
        """Return the retention of each topic in seconds (`AnyBroker.retentions`)."""
        return await self._admin.retentions(topics)

    async def take_epoch(self) -> int:
        """Append this writer to `onramp.writers`; return its epoch, which is the record's offset."""
        entry = {"host": socket.gethostname(), "pid": os.getpid()}
        record = await self._producer.send_and_wait(
            wire.WRITERS, key=_WRITER, value=json.dumps(entry).encode()
        )
        return int(record.offset)

    async def newest_epoch(self, known: int = -1) -> int:
        """Return the newest writer's epoch, or `known` if no writer is newer.  Usually one request."""
        [end] = (await self._of_all(self._leaders.end_offsets, wire.WRITERS, [_ENTRIES.partition])).values()
        newest = known
        if end > max(known + 1, self._read_upto):
            async for record in self.log(wire.WRITERS, {_ENTRIES.partition: known + 1}):
                if _is_entry(record):
                    newest = max(newest, record.offset)
                else:
                    self.foreign.pass_over(wire.WRITERS, record.partition, record.offset)
        if newest == known:
            self._read_upto = max(self._read_upto, end)
        return newest

    async def append(self, records: Sequence[Record]) -> list[RecordMetadata]:
        """Send `records` to their topics as `send_all` does, with a long-lived producer."""
        return await send_all(self._producer, records)

    async def log(self, topic: str, since: Mapping[int, int] | None = None) -> AsyncIterator[Any]:
        """Yield each record of `topic` from the start or `since` (partition to offset) to its end."""
        consumer = AIOKafkaConsumer(**self._settings.brokers.aiokafka(), enable_auto_commit=False)
        try:
            await consumer.start()
            numbers = since.keys() if since else await self._partitions_of(topic)
            starts = await self._of_all(self._leaders.beginning_offsets, topic, numbers)
            ends = await self._of_all(self._leaders.end_offsets, topic, numbers)
            upto = {TopicPartition(topic, n): ends[n] for n in numbers}
            consumer.assign(list(upto))
            for p in upto:
                consumer.seek(p, max(starts[p.partition], (since or {}).get(p.partition, 0)))
            async for record in read_to(consumer, self.foreign.pass_over, upto, _LEADERS_SECONDS):
                yield record
        finally:
            await consumer.stop()

    async def _of_all(self, ask: _Ask, topic: str, numbers: Iterable[int]) -> dict[int, int]:
        """Return the offsets that `ask` gets for all `numbers` of one of Onramp's own topics, by partition.

        Raise `InfrastructureError`, which names the partitions without an answer within `_LEADERS_SECONDS`.
        """
        await self._follow_own()
        left, offsets = {Partition(topic, n) for n in numbers}, dict[int, int]()
        until = time.monotonic() + _LEADERS_SECONDS
        while True:
            offsets |= {p.number: offset for p, offset in (await ask(left)).items()}
            left = {p for p in left if p.number not in offsets}
            if not left:
                return offsets
            if time.monotonic() >= until:
                raise InfrastructureError(KAFKA_UNAVAILABLE, halt_reasons.no_leader(left))
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _follow_own(self) -> None:
        """Follow Onramp's own topics; call it only when they exist, or the request would create them."""
        if not self._follows_own:
            await self._leaders.follow(_OWN)
            self._follows_own = True

    async def _partitions_of(self, topic: str) -> list[int]:
        [description] = await self._admin.describe_topics([topic])
        return [p["partition"] for p in description["partitions"]]

    async def partitions(self, named: Collection[str], sources: Collection[str] = ()) -> set[Partition]:
        """Return all partitions of the writer's topics: by its pattern, by `named`, and of `sources`."""
        topics = await self._admin.describe_topics()
        return {
            Partition(t["topic"], p["partition"])
            for t in topics
            if not t["is_internal"] and (t["topic"] in named or self._reads(t["topic"], sources))
            for p in t["partitions"]
        }

    def _reads(self, topic: str, sources: Collection[str]) -> bool:
        is_change_topic = any(wire.is_change_topic(topic, source) for source in sources)
        return is_change_topic or self._pattern.fullmatch(topic) is not None

    async def assign(self, partitions: Collection[Partition]) -> None:
        """Follow `partitions`, replacing earlier ones.  They are paused here: other clients read them."""
        # With the writers' entries: aiokafka drops an unassigned topic and needs 0.1 s to request it again.
        assigned = [_ENTRIES, *(TopicPartition(*p) for p in sorted(partitions))]
        self._consumer.assign(assigned)
        self._consumer.pause(*assigned)
        await self._leaders.follow([*_OWN, *(p.topic for p in partitions)])
        self._follows_own = True

    async def group_offsets(self, seconds: float = _COORDINATOR_SECONDS) -> dict[Partition, Committed]:
        """Return the group's committed offsets (`AnyBroker.group_offsets`).  Raise aiokafka's errors."""
        offsets = await self._admin.group_offsets(wire.WRITER_GROUP, seconds)
        return {
            Partition(p.topic, p.partition): Committed(o.offset, o.metadata or "")
            for p, o in offsets.items()
            if o.offset >= 0
        }

    async def group_offsets_now(self) -> dict[Partition, Committed] | None:
        """Return the result of `group_offsets`, or None if the group's coordinator does not answer."""
        try:
            return await self.group_offsets(0)
        except (KafkaError, TimeoutError) as e:
            reason = type(e).__name__
            log.warning("could not read the group's offsets; retrying later", extra={"reason": reason})
            return None

    async def beginning_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return each partition's first offset (`Leaders.beginning_offsets`)."""
        return await self._leaders.beginning_offsets(partitions)

    async def end_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return each log's end, including open transactions (`Leaders.end_offsets`)."""
        return await self._leaders.end_offsets(partitions)

    async def last_stable_offsets(
        self, partitions: Iterable[Partition], *, patient: bool = True
    ) -> dict[Partition, StableOffset]:
        """Return the last stable offset of each partition (`Leaders.last_stable_offsets`)."""
        return await self._leaders.last_stable_offsets(partitions, patient=patient)

    async def reached(self, epochs: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return the offsets at which leaders later than `epochs` began to write (`Leaders.reached`)."""
        return await self._leaders.reached(epochs)

    async def times(self, offsets: Mapping[Partition, int]) -> dict[Partition, float]:
        """Return the timestamp (seconds since 1970) of the record at or after each offset, if it exists.

        Records of open transactions are included.
        """
        timestamps: dict[Partition, float] = {}
        left = {TopicPartition(*p): o for p, o in offsets.items()}
        if left:
            self._record_consumer.assign(list(left))
            for p, offset in left.items():
                self._record_consumer.seek(p, offset)
        with suppress(KafkaError):  # a record that is not found is missing in the result
            while left and (records := await poll(self._record_consumer, _ignore, *left, timeout_ms=1000)):
                for p, batch in records.items():
                    if batch:
                        timestamps[Partition(p.topic, p.partition)] = batch[0].timestamp / 1000
                    left.pop(p, None)
        # Paused, because the consumer would otherwise keep fetching records that are never read.
        self._record_consumer.pause(*self._record_consumer.assignment())
        return timestamps

    async def offsets_before(self, topic: str, when: float) -> dict[int, int]:
        """Return the offset of each partition below which all records are older than `when` (epoch seconds).

        A partition whose leader does not answer is missing.
        """
        await self._follow_own()
        partitions = [Partition(topic, n) for n in await self._partitions_of(topic)]
        # The ends first: a record that arrives between the two requests must not count as old.
        ends = await self._leaders.last_stable_offsets(partitions, patient=False)
        young = await self._leaders.since(ends, when)
        return {p.number: ends[p].offset if first is None else first for p, first in young.items()}

    async def delete_below(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Delete the records below `offsets`, by partition, if any exist and the leader answers."""
        starts = await self._leaders.beginning_offsets([Partition(topic, n) for n in offsets])
        below = {
            TopicPartition(*p): RecordsToDelete(offsets[p.number])
            for p, start in starts.items()
            if start < offsets[p.number]
        }
        if below:
            await self._admin.delete_records(below)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the group's offsets.  Invariant: all events below them are settled or diverted.

        Raise aiokafka's errors, and TimeoutError, because aiokafka searches the coordinator without limit.
        """
        with_metadata = {TopicPartition(*p): (o, self.generations.get(p, "")) for p, o in offsets.items()}
        async with asyncio.timeout(_COORDINATOR_SECONDS):
            await self._consumer.commit(with_metadata)


def _is_entry(record: Any) -> bool:
    """Return whether a writer wrote this record of `onramp.writers`."""
    try:
        entry = json.loads(record.value or b"")
    except UNREADABLE:
        return False
    return record.key == _WRITER and isinstance(entry, dict) and {"host", "pid"} <= entry.keys()


def _ignore(*_: object) -> None:
    """Ignore a record that cannot be parsed; the batch that reads the record logs it."""
