"""The state of the lake service: one document, which the driver replaces and threads of HTTP read."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from services.lake.observe.metrics import LakeMetrics
from services.lake.task.order import LakeReport
from services.lake.waits import Wait
from shared.kafka_read.lag_age import LagAge
from shared.kafka_read.offsets import Partition


@dataclass(slots=True)
class TableEntry:
    """The totals of one table since the start of the process, and the reason why it waits."""

    rows: int = 0
    commits: int = 0
    refused: int = 0
    rescued: int = 0
    repeated: int = 0
    last_commit_at: float = 0.0
    code: str = ""
    reason: str = ""


@dataclass(slots=True)
class TopicEntry:
    """The lag of one topic."""

    lag_events: int = 0
    behind_seconds: float = 0.0
    retention_left_seconds: float | None = None
    waiting: dict[int, str] = field(default_factory=dict)


class LakeStatus:
    """The service's state and metrics."""

    def __init__(self, new_counter_seconds: float = 0.0) -> None:
        """`new_counter_seconds`: seconds that a new counter of lost events is shown at 0."""
        self.metrics = LakeMetrics(new_counter_seconds)
        self.trouble = "starting"
        #: Retention of topics in seconds; topics with unlimited retention are missing.
        self.retentions: Mapping[str, float] = {}
        self._tables: dict[str, TableEntry] = defaultdict(TableEntry)
        self._topics: dict[str, TopicEntry] = {}
        self._lag_ages: dict[str, LagAge] = defaultdict(LagAge)
        self._batches = 0
        #: The start of the running batch (monotonic); its age is measured by each scrape.
        self._began: float | None = None
        self.metrics.running.set_function(self._running_seconds)
        self._updated_at = 0.0

    def show(
        self,
        ends: Mapping[Partition, int],
        next_offsets: Mapping[Partition, int],
        waiting: Mapping[Partition, Wait],
        lost: Mapping[str, int],
    ) -> None:
        """Replace the lags and the waiting tables; `lost`: new lost events by topic."""
        by_topic: dict[str, dict[Partition, int]] = defaultdict(dict)
        for p, end in ends.items():
            by_topic[p.topic][p] = end
        now = time.time()
        self._topics = {topic: self._topic(topic, of, next_offsets, now) for topic, of in by_topic.items()}
        for p, wait in waiting.items():
            if p.topic in self._topics:
                self._topics[p.topic].waiting[p.number] = wait.detail
        self._show_tables({each.table: each for each in waiting.values() if each.table})
        for topic, count in lost.items():
            self.metrics.count_lost(topic, count)
        self._updated_at = now

    def _topic(
        self, topic: str, ends: Mapping[Partition, int], next_offsets: Mapping[Partition, int], now: float
    ) -> TopicEntry:
        entry = TopicEntry(sum(max(end - next_offsets.get(p, 0), 0) for p, end in ends.items()))
        entry.behind_seconds = round(self._lag_ages[topic].seconds(ends, next_offsets, now), 1)
        if topic in self.retentions:
            entry.retention_left_seconds = max(self.retentions[topic] - entry.behind_seconds, 0.0)
            self.metrics.retention.labels(topic).set(entry.retention_left_seconds)
        self.metrics.lag.labels(topic).set(entry.lag_events)
        self.metrics.behind.labels(topic).set(entry.behind_seconds)
        self.metrics.lost.labels(topic)  # at 0, so that an increase is visible
        return entry

    def _show_tables(self, halted: Mapping[str, Wait]) -> None:
        for name in {*self._tables, *halted}:
            entry, wait = self._tables[name], halted.get(name)
            if entry.code and (wait is None or wait.code != entry.code):
                self.metrics.halted.remove(name, entry.code)
            entry.code, entry.reason = (wait.code, wait.detail) if wait else ("", "")
            if wait:
                self.metrics.halted.labels(name, wait.code).set(1)

    def count(self, reports: Sequence[LakeReport]) -> None:
        """Count the commits of a batch."""
        for table in (table for report in reports for table in report.tables):
            entry = self._tables[table.table]
            for name in ("rows", "commits", "refused", "rescued", "repeated"):
                added = getattr(table, name)
                setattr(entry, name, getattr(entry, name) + added)
                getattr(self.metrics, name).labels(table.table).inc(added)
            if table.commits:
                entry.last_commit_at = time.time()

        for each in (each for report in reports for each in report.ranges):
            self.metrics.filtered.labels(each.partition.topic).inc(each.filtered)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Measure a batch."""
        self._began = time.monotonic()
        try:
            yield
            self._batches += 1
            self.metrics.batches.observe(time.monotonic() - self._began)
        finally:
            self._began = None

    def _running_seconds(self) -> float:
        return 0.0 if (began := self._began) is None else time.monotonic() - began

    @property
    def is_ready(self) -> bool:
        """Return whether the driver follows its topics."""
        return not self.trouble

    def document(self) -> bytes:
        """Return the answer of /status."""
        document: dict[str, Any] = {
            "trouble": self.trouble,
            "updated_at": self._updated_at,
            "batches": self._batches,
            "tables": dict(self._tables),
            "topics": self._topics,
        }
        return orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS)
