"""The registry's log on Kafka: the topic `onramp.registry`, one partition with unlimited retention.

It is read without transaction isolation: an open transaction of a foreign client would stop all readers, and
this way every reader sees the same records at any time. aiokafka runs on an event loop, and registries
are read in threads, so the log has its own loop in a thread.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from shared.errors import KAFKA_UNAVAILABLE, OWN_TOPIC_MISSING, OWN_TOPIC_UNSAFE, InfrastructureError
from shared.polling import poll
from shared.registry.log import Record, Span
from shared.settings import KafkaSettings
from shared.topics import REGISTRY_TOPIC, TopicSpec

log = logging.getLogger(__name__)

_REQUEST_MS: Final = 5_000
_POLL_MS: Final = 200
_FETCH_WAIT_MS: Final = 25
#: Timeout of one use: metadata of a new topic takes time.
_SECONDS: Final = 20.0
_RETRY_SECONDS: Final = 0.05
_MAX_BYTES: Final = int(REGISTRY_TOPIC.config["max.message.bytes"])

T = TypeVar("T")


class KafkaLog:
    """A log that connects at its first use, and again after each error."""

    def __init__(self, settings: KafkaSettings, spec: TopicSpec = REGISTRY_TOPIC) -> None:
        self._settings = settings
        self._spec = spec
        self._partition = TopicPartition(spec.name, 0)
        self._consumer: AIOKafkaConsumer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._running: Future[Any] | None = None

    def span(self) -> Span:
        """Return the readable offsets. Raises `InfrastructureError`."""
        return self._run(self._span())

    def read(self, first: int, end: int) -> list[Record]:
        """Return the records in a range of offsets. Raises `InfrastructureError`."""
        return self._run(self._read(first, end))

    def append(self, value: bytes) -> int:
        """Write a record to all replicas, and return its offset. Raises `InfrastructureError`."""
        return self._run(self._append(value))

    def close(self) -> None:
        """Cancel the running request, close connections and end the thread."""
        if (running := self._running) is not None:
            running.cancel()
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(self._stop(), loop).result(_SECONDS)
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(_SECONDS)
            loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="registry", daemon=True)
            self._thread.start()
        self._running = running = asyncio.run_coroutine_threadsafe(self._attempt(work), self._loop)
        return running.result()

    async def _attempt(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(_SECONDS):
                return await work
        except (KafkaError, OSError, TimeoutError) as e:
            await self._stop()  # its metadata may belong to a deleted topic
            detail = f"{self._spec.name} on Kafka at {self._settings.bootstrap} cannot be reached"
            raise InfrastructureError(KAFKA_UNAVAILABLE, f"{detail}: {type(e).__name__}") from None

    async def _stop(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    async def _span(self) -> Span:
        consumer = await self._reached()
        firsts = await consumer.beginning_offsets([self._partition])
        ends = await consumer.end_offsets([self._partition])
        return Span(firsts[self._partition], ends[self._partition])

    async def _read(self, first: int, end: int) -> list[Record]:
        consumer = await self._reached()
        consumer.seek(self._partition, first)
        consumer.resume(self._partition)
        records: list[Record] = []
        while await consumer.position(self._partition) < end:
            polled = await poll(consumer, _note_unreadable, self._partition, timeout_ms=_POLL_MS)
            records += [Record(each.offset, each.value) for each in polled.get(self._partition, ())]
        consumer.pause(self._partition)
        return [each for each in records if each.offset < end]

    async def _append(self, value: bytes) -> int:
        await self._reached()
        producer = AIOKafkaProducer(
            **self._settings.brokers.aiokafka(),
            request_timeout_ms=_REQUEST_MS,
            acks="all",
            enable_idempotence=True,
            max_request_size=_MAX_BYTES,
            compression_type="gzip",
        )
        async with AsyncExitStack() as parts:
            parts.push_async_callback(producer.stop)
            await producer.start()
            written = await producer.send_and_wait(self._spec.name, value, partition=0)
            return int(written.offset)

    async def _reached(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            async with self._admin() as admin:
                await self._require_topic(admin)
            consumer = AIOKafkaConsumer(
                **self._settings.brokers.aiokafka(),
                request_timeout_ms=_REQUEST_MS,
                enable_auto_commit=False,
                auto_offset_reset="none",
                isolation_level="read_uncommitted",
                # A fetch that waits at the log's end delays the next request on its connection.
                fetch_max_wait_ms=_FETCH_WAIT_MS,
            )
            try:
                await consumer.start()
                consumer.assign([self._partition])
                consumer.pause(self._partition)
            except BaseException:
                await consumer.stop()
                raise
            self._consumer = consumer
        return self._consumer

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(**self._settings.brokers.aiokafka(), request_timeout_ms=_REQUEST_MS)
        try:
            await admin.start()
            yield admin
        finally:
            await admin.close()

    async def _require_topic(self, admin: AIOKafkaAdminClient) -> None:
        """Create the topic if it is missing and allowed; raise `InfrastructureError` for an unsafe one."""
        if not await self._partitions(admin):
            if not self._settings.create_topics:
                raise InfrastructureError(OWN_TOPIC_MISSING, self._creation_advice())
            await self._create(admin)
        partitions = 0
        while not partitions:  # the caller's timeout ends it
            partitions = await self._partitions(admin)
            await asyncio.sleep(0 if partitions else _RETRY_SECONDS)
        if partitions != 1:
            raise InfrastructureError(
                OWN_TOPIC_UNSAFE, f"{self._spec.name} has {partitions} partitions and must have one"
            )
        await self._require_retention(admin)

    async def _partitions(self, admin: AIOKafkaAdminClient) -> int:
        """Return the topic's number of partitions, 0 if it is missing; the request does not create it."""
        topics = await admin.describe_topics()
        return next((len(t["partitions"]) for t in topics if t["topic"] == self._spec.name), 0)

    async def _create(self, admin: AIOKafkaAdminClient) -> None:
        new = NewTopic(self._spec.name, 1, self._settings.replication, topic_configs=self._topic_config())
        for _, code, message in (await admin.create_topics([new])).topic_errors:
            if code not in (0, TopicAlreadyExistsError.errno):
                raise for_code(code)(f"topic {self._spec.name} could not be created: {message}")

    async def _require_retention(self, admin: AIOKafkaAdminClient) -> None:
        required = {name: must for name, must in self._topic_config().items() if name in _KEEPING}
        resource = ConfigResource(ConfigResourceType.TOPIC, self._spec.name, dict.fromkeys(required))
        code, _, _, _, entries = (await admin.describe_configs([resource]))[0].resources[0]
        if code:  # a user who may read but not describe settings: the topic's creator is responsible
            log.warning("the registry's topic cannot be checked", extra={"reason": for_code(code).__name__})
            return
        is_ = {entry[0]: entry[1] for entry in entries}
        if wrong := sorted(f"{name}={must}" for name, must in required.items() if is_.get(name) != must):
            command = f"kafka-configs --alter --topic {self._spec.name} --add-config {','.join(wrong)}"
            raise InfrastructureError(OWN_TOPIC_UNSAFE, f"{self._spec.name} would lose changes: {command}")

    def _topic_config(self) -> dict[str, str]:
        return {**self._spec.config, "min.insync.replicas": str(self._settings.min_insync)}

    def _creation_advice(self) -> str:
        options = " ".join(f"--config {name}={value}" for name, value in self._topic_config().items())
        return (
            f"there is no topic {self._spec.name}: kafka-topics --create --topic {self._spec.name} "
            f"--partitions 1 --replication-factor {self._settings.replication} {options}"
        )


#: Settings that keep records from expiring and from compaction.
_KEEPING: Final = frozenset({"cleanup.policy", "retention.ms", "retention.bytes"})


def _note_unreadable(topic: str, partition: int, offset: int) -> None:
    log.warning(
        "a record with a header key that is not UTF-8 was skipped",
        extra={"topic": topic, "partition": partition, "offset": offset},
    )
