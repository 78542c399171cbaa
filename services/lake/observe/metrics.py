"""The lake service's Prometheus metrics."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from shared.new_counters import NewCounters
from shared.process_metrics import ProcessMetrics

_SECONDS: Final = (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300)


class LakeMetrics:
    """Counters of commits and rows by table, and gauges of lag by topic."""

    def __init__(self, new_counter_seconds: float = 0.0) -> None:
        self.registry = CollectorRegistry()
        self._new = NewCounters(self.registry, new_counter_seconds)
        self.process = ProcessMetrics(self.registry)
        self.rows = self._counter("rows", "Rows committed to a table of the lake.")
        self.commits = self._counter("commits", "Commits of rows to a table of the lake.")
        self.refused = self._counter(
            "refused_commits", "Commits that were refused because another one came first, and repeated."
        )
        self.rescued = self._counter(
            "rescued_values",
            "Values that do not fit their typed column: null in the column, unchanged in payload.",
        )
        self.repeated = self._counter(
            "repeated_rows", "Rows with the id of an earlier row of the same commit: retries of producers."
        )
        self.filtered = Counter(
            "onramp_lake_filtered_records",
            "Records for no table of the lake: other types, packets, and records that the writer parks.",
            ["topic"],
            registry=self.registry,
        )
        self.lost = Counter(
            "onramp_lake_lost_events",
            "Events that Kafka deleted before they were in the lake.",
            ["topic"],
            registry=self.registry,
        )
        self.lag = self._gauge("lag_events", "Events on Kafka that the lake has not landed.", "topic")
        self.behind = self._gauge(
            "behind_seconds",
            "Lag in seconds: age of the oldest end offset of a topic that the lake has not reached.",
            "topic",
        )
        self.retention = self._gauge(
            "retention_left_seconds",
            "Seconds until Kafka may delete the oldest event that the lake has not landed.",
            "topic",
        )
        self.halted = self._gauge(
            "table_halted",
            "1 while a table of the lake does not take the events of its topics.",
            "table",
            "code",
        )
        self.running = Gauge(
            "onramp_lake_batch_running_seconds",
            "Seconds since the start of the running batch; 0 between batches.",
            registry=self.registry,
        )
        self.batches = Histogram(
            "onramp_lake_batch_seconds",
            "Seconds of a batch: plan, landing and settling.",
            buckets=_SECONDS,
            registry=self.registry,
        )

    def page(self) -> bytes:
        """Return all metrics for Prometheus; reading changes nothing."""
        return self._new.page()

    def count_lost(self, topic: str, events: int) -> None:
        """Count lost events, usually those of the time before this start: the 0 before them is shown."""
        self._new.count(self.lost, (topic,), events)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"onramp_lake_{name}", text, ["table"], registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"onramp_lake_{name}", text, labels, registry=self.registry)
