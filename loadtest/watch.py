"""Watches a run from outside: the ledger every few milliseconds, processes and lag every second.

The ledger of a partition moves in the transaction of the rows themselves.  So the moment at
which another connection sees it past an offset is one at which every connection sees that
offset's row; it is noted after the answer, so that the measure errs upwards by at most the
time between two looks.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

import psutil
import psycopg2
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from loadtest.processes import cpu_of, pss_of
from loadtest.target import Target, admin

POLL_SECONDS: Final = 0.01
SAMPLE_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 0.25
#: Adding up shared pages takes the kernel a while.
_PSS_EVERY: Final = 10
_LEDGER: Final = "SELECT partition, max(next_offset) FROM onramp.ledger WHERE topic = %s GROUP BY 1"
#: A new topic or a broker that went away: asked again a moment later there is an answer.
_PASSING: Final = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._TIMED_OUT,  # noqa: SLF001 - librdkafka's own errors are named so
    KafkaError._TRANSPORT,  # noqa: SLF001
)
_GENERATOR: Final = "locust"


class Watch:
    """Watches while its block runs.  Times are CLOCK_MONOTONIC."""

    def __init__(self, target: Target, topic: str, partitions: int) -> None:
        """Nothing is read before the block begins."""
        self._target = target
        self._topic = topic
        self._partitions = [TopicPartition(topic, n) for n in range(partitions)]
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.progress: dict[int, list[tuple[float, int]]] = defaultdict(list)
        """By partition: when its ledger was first seen at an offset."""
        self.polls = 0
        self.poll_seconds = 0.0
        self.max_poll_gap = 0.0
        """The longest time between two polls."""
        self.samples: list[dict[str, Any]] = []
        self.generator: int | None = None
        """The process id of the generator, once it runs."""
        self.failure: Exception | None = None
        self.lag = 0

    def __enter__(self) -> Self:
        """Start watching."""
        tasks = [self._follow_ledger, self._sample] if self._target.verifiable else [self._sample]
        self._threads = [threading.Thread(target=self._guarded, args=[t], daemon=True) for t in tasks]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; raise the error that ended the watching, if any."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.failure and error is None:
            raise self.failure

    @property
    def settled(self) -> int:
        """The number of offsets that the ledger has passed."""
        return sum(line[-1][1] for line in self.progress.values() if line)

    def wait_for_lag_zero(self, patience: float) -> int:
        """Wait until the ledger has passed the whole topic, and the topic no longer grows.

        Returns what is missing after `patience` seconds in which nothing moved.
        """
        kafka = admin(self._target.bootstrap)
        before: tuple[int | None, int] | None = None
        moved = time.monotonic()
        while True:
            if self.failure:
                raise self.failure
            end, settled = _end(kafka, self._partitions), self.settled
            if (end, settled) != before:
                before, moved = (end, settled), time.monotonic()
            elif end is not None and settled >= end:
                return 0  # the same as a moment ago: nothing was still on its way in
            elif time.monotonic() - moved > patience:
                return 1 if end is None else end - settled
            time.sleep(_QUIET_SECONDS)

    def _guarded(self, task: Callable[[], None]) -> None:
        try:
            task()
        except Exception as error:  # noqa: BLE001 - a thread has no caller to raise to; __exit__ has
            self.failure = error

    def _follow_ledger(self) -> None:
        connection = psycopg2.connect(self._target.dsn, application_name="onramp-load")
        connection.autocommit = True
        began = before = time.monotonic()
        with connection.cursor() as cursor:
            while not self._stop.wait(POLL_SECONDS):
                cursor.execute(_LEDGER, (self._topic,))
                rows, now = cursor.fetchall(), time.monotonic()
                self.polls += 1
                self.poll_seconds = now - began
                self.max_poll_gap, before = max(self.max_poll_gap, now - before), now
                for partition, offset in rows:
                    line = self.progress[partition]
                    if not line or line[-1][1] < offset:
                        line.append((now, offset))
        connection.close()

    def _sample(self) -> None:
        kafka = admin(self._target.bootstrap) if self._target.verifiable else None
        turn = 0
        while not self._stop.is_set():
            began = time.monotonic()
            ours = self._each(cpu_of) | _own_cpu()
            sample: dict[str, Any] = {"at": began, "cpu": ours, "machine": _busy_seconds()}
            if turn % _PSS_EVERY == 0:
                sample["pss"] = self._each(pss_of)
            if kafka is not None:  # an idle client has no length, and counts as false
                settled = self.settled  # first: the ends may only be further then
                end = _end(kafka, self._partitions)
                if end is not None:
                    self.lag = sample["lag"] = end - settled
            self.samples.append(sample)
            turn += 1
            self._stop.wait(max(0.0, SAMPLE_SECONDS - (time.monotonic() - began)))

    def _each(self, measure: Callable[[psutil.Process], dict[str, float]]) -> dict[str, float]:
        """Return by process: a family's kinds apart, since the writer is a JVM and Python workers."""
        heads = dict(self._target.processes)
        if self.generator:
            heads[_GENERATOR] = self.generator
        values = {}
        for name, head in heads.items():
            try:
                kinds = measure(psutil.Process(head))
            except psutil.NoSuchProcess:
                continue
            for kind, value in kinds.items():
                values[name if len(kinds) == 1 else f"{name} ({kind})"] = value
        return values


def _busy_seconds() -> float:
    """Return CPU seconds of everything on this machine."""
    times = psutil.cpu_times()
    idle = ("idle", "iowait", "steal", "guest", "guest_nice")  # guests are within `user` already
    return float(sum(times) - sum(getattr(times, name, 0.0) for name in idle))


def _own_cpu() -> dict[str, float]:
    times = psutil.Process().cpu_times()
    return {"watcher": times.user + times.system}


def _end(kafka: AdminClient, partitions: list[TopicPartition]) -> int | None:
    """Return the number of the topic's records; None while a partition has no leader."""
    asked = kafka.list_offsets({p: OffsetSpec.latest() for p in partitions}, request_timeout=10)
    try:
        return sum(answer.result().offset for answer in asked.values())
    except KafkaException as error:
        if error.args[0].code() in _PASSING:
            return None
        raise
