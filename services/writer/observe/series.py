"""Series of labels that clients may create: bounded in number, and each counter starts at 0 for a while."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from shared.new_counters import Labels, NewCounters

OTHER: Final = "other"
#: Labels with names from topics, tables and packets.  The other labels have few values, and alerts need them.
_CLIENT_LABELS: Final = {"topic", "partition", "event_type", "table", "name", "place"}


class Series:
    """Sets the series of a registry's metrics.

    A metric has at most `max_series` series, and in addition series in which all client labels are `other`:
    step, database and outcome always have their own values.
    """

    def __init__(self, registry: CollectorRegistry, max_series: int, new_s: float = 0.0) -> None:
        """`new_s`: seconds that a new counter is shown at 0."""
        self._counters = NewCounters(registry, new_s)
        self._max_series = max_series
        self._shown: dict[str, set[Labels]] = {}
        self._joined: dict[Gauge, set[Labels]] = {}
        self._totals: dict[tuple[str, Labels], float] = {}
        self._sources: set[tuple[str, str]] = set()

    def page(self) -> bytes:
        """Return all metrics for Prometheus; reading changes nothing."""
        return self._counters.page()

    def totals(self, metric: Counter) -> dict[Labels, float]:
        """Return the totals given to `count_to`, also those of counters that are still shown at 0."""
        name = metric._name  # noqa: SLF001 - its name is not public
        return {labels: n for (of, labels), n in self._totals.copy().items() if of == name}

    def count(self, metric: Counter, labels: Labels, n: float) -> None:
        """Add `n` to a counter."""
        metric.labels(*self._bounded(metric, labels)).inc(n)

    def count_from_0(self, metric: Counter, labels: Labels, n: float) -> None:
        """Add `n` to a counter that alerts need from its first value; its labels have few values."""
        self._counters.count(metric, labels, n)

    def count_to(self, metric: Counter, totals: Mapping[Labels, float], source: str) -> None:
        """Raise counters to the totals of a `source`; a lower total has no effect.

        The totals of a source's first reading were counted before this process: they are shown at once.
        """
        source_key = (metric._name, source)  # noqa: SLF001 - its name is not public
        is_first = source_key not in self._sources
        self._sources.add(source_key)
        for labels, total in totals.items():
            key = (metric._name, labels)  # noqa: SLF001 - as above
            is_new = key not in self._totals and not is_first
            more = total - self._totals.get(key, 0.0)
            if more > 0:
                self._totals[key] = total
                self._counters.add(metric, self._bounded(metric, labels), more, is_new=is_new)

    def observe(self, metric: Histogram, labels: Labels, counts: Sequence[int], total: float) -> None:
        """Add values to a histogram: the number in each of its buckets, and their sum."""
        child = metric.labels(*self._bounded(metric, labels, self._max_series // len(counts)))
        # prometheus_client has no public method for many values.
        for bucket, count in zip(child._buckets, counts, strict=True):  # noqa: SLF001
            bucket.inc(count)
        child._sum.inc(total)  # noqa: SLF001

    def show(
        self, metric: Gauge, values: Mapping[Labels, float], join: Callable[[float, float], float]
    ) -> None:
        """Set a gauge to exactly `values`; values above the bound are combined with `join`."""
        shown = self._shown.setdefault(metric._name, set())  # noqa: SLF001 - as above
        for labels in [*(shown - values.keys()), *self._joined.pop(metric, ())]:
            metric.remove(*labels)
            shown.discard(labels)
        bounded: dict[Labels, float] = {}
        for labels, value in values.items():
            key = self._bounded(metric, labels)
            bounded[key] = join(bounded[key], value) if key in bounded else value
        self._joined[metric] = bounded.keys() - shown
        for labels, value in bounded.items():
            metric.labels(*labels).set(value)

    def _bounded(self, metric: Any, labels: Labels, max_series: int | None = None) -> Labels:
        """Return `labels`, or above the bound the labels of the series that combines several."""
        shown = self._shown.setdefault(metric._name, set())  # noqa: SLF001 - as above
        if labels in shown:
            return labels
        if len(shown) < (self._max_series if max_series is None else max_series):
            shown.add(labels)
            return labels
        return _joined(metric, labels)


def _joined(metric: Any, labels: Labels) -> Labels:
    names = metric._labelnames  # noqa: SLF001 - the names are not public
    return tuple(
        OTHER if name in _CLIENT_LABELS and label else label
        for name, label in zip(names, labels, strict=True)
    )
