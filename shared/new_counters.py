"""New counters are shown at 0 for a while: Prometheus computes an increase from one sample to the next.

A counter that starts at 99 shows no increase (prometheus/prometheus#1673), so the first parked events would
raise no alert. The 0 is shown for a time and not for one reading, because an operator who reads the page
must not consume it.
"""

import time
from threading import Lock

from prometheus_client import CollectorRegistry, Counter, generate_latest

Labels = tuple[str, ...]


class NewCounters:
    """Adds to the counters of a registry, and builds its page."""

    def __init__(self, registry: CollectorRegistry, new_s: float) -> None:
        """`new_s`: seconds that a new counter is shown at 0."""
        self._registry = registry
        self._new_s = new_s
        #: Another thread builds the page.
        self._lock = Lock()
        self._known: set[tuple[Counter, Labels]] = set()
        #: For each new counter, the time at which it starts to count (monotonic seconds), and its value.
        self._not_yet: dict[tuple[Counter, Labels], tuple[float, float]] = {}

    def page(self) -> bytes:
        """Return all metrics for Prometheus; reading changes nothing."""
        with self._lock:
            now = time.monotonic()
            for metric, labels in [key for key, (when, _) in self._not_yet.items() if when <= now]:
                metric.labels(*labels).inc(self._not_yet.pop((metric, labels))[1])
            return generate_latest(self._registry)

    def count(self, metric: Counter, labels: Labels, n: float = 1) -> None:
        """Add `n` to a counter, which is new at its first call."""
        key = (metric, labels)
        self.add(metric, labels, n, is_new=key not in self._known)
        self._known.add(key)

    def add(self, metric: Counter, labels: Labels, n: float, *, is_new: bool) -> None:
        """Add `n` to a counter whose caller knows whether it is new."""
        key = (metric, labels)
        with self._lock:
            if is_new or key in self._not_yet:
                metric.labels(*labels)
                when, before = self._not_yet.get(key, (time.monotonic() + self._new_s, 0.0))
                self._not_yet[key] = when, before + n
            else:
                metric.labels(*labels).inc(n)
