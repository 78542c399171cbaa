"""The tracer's Prometheus metrics."""

from collections import Counter as Counts
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.tracer.results import Change, Result, Tracer
from shared.new_counters import NewCounters

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600)


class TracerMetrics:
    """Counters of results, times of each leg, and the number of tracers without a row."""

    def __init__(self, new_counter_seconds: float = 0.0) -> None:
        self.registry = CollectorRegistry()
        self._new = NewCounters(self.registry, new_counter_seconds)
        self.results = Counter(
            "onramp_tracer_results",
            "Results of tracers: landed, late (also without a row yet), waiting, lost, duplicate, refused, "
            "not_in_lake. A tracer whose result is corrected counts in both.",
            ["entrance", "destination", "result"],
            registry=self.registry,
        )
        self.accepted_seconds = Histogram(
            "onramp_tracer_accepted_seconds",
            "Seconds from sending a tracer to its acceptance, by entrance.",
            ["entrance"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.landed_seconds = Histogram(
            "onramp_tracer_landed_seconds",
            "Seconds from the acceptance of a tracer to its row, by entrance and destination.",
            ["entrance", "destination"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.recent = Gauge(
            "onramp_tracer_recent",
            "Tracers of the last hour by their present result: in_flight, landed, late, waiting, lost, "
            "duplicate, refused, not_in_lake.",
            ["entrance", "destination", "result"],
            registry=self.registry,
        )

    def page(self) -> bytes:
        """Return all metrics for Prometheus; reading changes nothing."""
        return self._new.page()

    def count(self, changes: Iterable[Change]) -> None:
        """Count new results."""
        for tracer, destination, result in changes:
            if result is not Result.IN_FLIGHT:
                self._new.count(self.results, (tracer.entrance, str(destination), result.value))
            landed_at = tracer.watches[destination].landed_at
            if result is Result.LANDED and landed_at is not None and tracer.accepted_at is not None:
                seconds = max(landed_at - tracer.accepted_at, 0.0)
                self.landed_seconds.labels(tracer.entrance, str(destination)).observe(seconds)

    def show_recent(self, tracers: Iterable[Tracer]) -> None:
        """Set the numbers of tracers by result; a scrape in between sees the earlier or the new numbers."""
        counts = Counts(
            (tracer.entrance, str(destination), result.value)
            for tracer in tracers
            for destination, watch in tracer.watches.items()
            for result in (watch.result,)
        )
        series = {(e, d, result.value) for e, d, _ in counts for result in Result}
        for labels in series:
            self.recent.labels(*labels).set(counts[labels])
