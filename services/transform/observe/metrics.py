"""The transform service's Prometheus metrics."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from shared.process_metrics import ProcessMetrics

OUTCOMES: Final = ("filtered", "dropped", "parked", "emitted")
RESULTS: Final = ("done", "failed", "cancelled")


class TransformMetrics:
    """Counters of outcomes and runs, and gauges of lag and state, by transform."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.process = ProcessMetrics(self.registry)
        #: The shown version of each transform.
        self._versions: dict[str, str] = {}
        self.events = Counter(
            "onramp_transform_events",
            "Records that transforms have processed: emitted, dropped, parked, filtered (of another type).",
            ["transform", "outcome"],
            registry=self.registry,
        )
        self.outputs = Counter(
            "onramp_transform_outputs",
            "Events that transforms have emitted.",
            ["transform"],
            registry=self.registry,
        )
        self.deaths = Counter(
            "onramp_transform_deaths",
            "Events that ended the process of a transform's function.",
            ["transform"],
            registry=self.registry,
        )
        self.function_seconds = Counter(
            "onramp_transform_function_seconds",
            "Seconds that lane runs have waited for a transform's function.",
            ["transform"],
            registry=self.registry,
        )
        self.runs = Counter(
            "onramp_transform_runs",
            "Ended lane runs of a transform: done, failed, cancelled by a deploy or a pause.",
            ["transform", "result"],
            registry=self.registry,
        )
        self.lag = Gauge(
            "onramp_transform_lag_events",
            "Events on Kafka that a transform has not processed.",
            ["transform"],
            registry=self.registry,
        )
        self.behind = Gauge(
            "onramp_transform_behind_seconds",
            "Lag in seconds: age of the oldest end offset of the source topic that was not reached.",
            ["transform"],
            registry=self.registry,
        )
        self.paused = Gauge(
            "onramp_transform_paused",
            "1 while a transform is paused, by an operator or by the service.",
            ["transform"],
            registry=self.registry,
        )
        self.lookup_age = Gauge(
            "onramp_transform_lookup_age_ratio",
            "Age of a lookup's snapshot divided by its refresh interval; above 10 its transforms wait.",
            ["lookup"],
            registry=self.registry,
        )
        self.version = Gauge(
            "onramp_transform_info",
            "1 for the deployed version of a transform: the first digits of its digest.",
            ["transform", "version"],
            registry=self.registry,
        )

    def page(self) -> bytes:
        """Return all metrics for Prometheus; reading changes nothing."""
        return generate_latest(self.registry)

    def prepare(self, transform: str) -> None:
        """Show all series of a transform with 0, so that an increase of each is visible."""
        for outcome in OUTCOMES:
            self.events.labels(transform, outcome)
        for result in RESULTS:
            self.runs.labels(transform, result)
        for counter in (self.outputs, self.deaths, self.function_seconds):
            counter.labels(transform)

    def show_version(self, transform: str, digest: str) -> None:
        """Show the deployed version instead of an earlier one."""
        version = digest[:12]
        before = self._versions.get(transform)
        if before is not None and before != version:
            self.version.remove(transform, before)
        self._versions[transform] = version
        self.version.labels(transform, version).set(1)

    def count(self, transform: str, counts: Mapping[str, int]) -> None:
        """Count new outcomes, outputs and deaths."""
        for outcome in OUTCOMES:
            self.events.labels(transform, outcome).inc(counts[outcome])
        self.outputs.labels(transform).inc(counts["outputs"])
        self.deaths.labels(transform).inc(counts["deaths"])

    def forget(self, transform: str) -> None:
        """Remove the gauges of a transform that is no longer deployed."""
        for gauge in (self.lag, self.behind, self.paused):
            if (transform,) in gauge._metrics:  # noqa: SLF001 - there is no public method
                gauge.remove(transform)
